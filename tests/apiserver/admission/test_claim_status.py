"""Who may write which part of a claim's status."""

from typing import Any

import pytest

from dray.api.errors import Invalid
from dray.api.users import ADMIN, NODE_NAME, User, service_account_user
from dray.api.wire import Tree
from dray.apiserver.admission.claim_status import ClaimStatusRights
from dray.apiserver.security.authorization import Union
from dray.apiserver.security.authorization.bootstrap import policy
from dray.apiserver.security.authorization.rbac import Rbac
from tests.apiserver.admission.writing import update
from tests.apiserver.reading import Objects, account_subject, binding, claim, role, rule

DRIVER, OTHER = "gpu.example.com", "nic.example.com"


def allocated(*nodes: str, drivers: tuple[str, ...] = (DRIVER,)) -> Tree:
    results = [{"request": "r", "driver": driver, "pool": "p", "device": "d"} for driver in drivers]
    found: Tree = {"devices": {"results": results}}
    if nodes:
        field = {"key": "metadata.name", "operator": "In", "values": list(nodes)}
        found["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return found


def said(driver: str = DRIVER, **data: Any) -> Tree:
    return {"driver": driver, "pool": "p", "device": "d", "data": data}


RESERVED = [{"resource": "pods", "name": "p", "uid": "1"}]


def on(*nodes: str) -> User:
    return service_account_user("default", "driver", extra={NODE_NAME: nodes} if nodes else None)


def rights(verb: str = "", subresource: str = "", names: str = "", namespace: str = "") -> ClaimStatusRights:
    """The plugin in a cluster that grants the service account a verb on a subresource of claims."""
    rules = [rule(verb, f"resourceclaims/{subresource}", "resource.k8s.io", names)] if verb else []
    given = binding("driver", "driver", account_subject("driver", "default"), namespace=namespace)
    return ClaimStatusRights(Union(Rbac(Objects(role("driver", *rules, namespace=namespace), given))))


async def writes(plugin: ClaimStatusRights, user: User, old: Tree, new: Tree, verb: str = "update") -> None:
    trees = [claim("c", status=status) for status in (old, new)]
    await update(plugin, *trees, user=user, subresource="status", verb=verb)


@pytest.mark.parametrize("new", [{"allocation": allocated()}, {"reservedFor": RESERVED}])
async def test_allocations_and_reservations_need_the_right_to_bind(new: Tree) -> None:
    with pytest.raises(Invalid) as caught:
        await writes(rights(), on(), {}, new)
    changed = "status.allocation or status.reservedFor" if "allocation" in new else "status.reservedFor"
    assert f"status: Forbidden: changing {changed} requires" in caught.value.message
    assert 'cannot update resource "resourceclaims/binding"' in caught.value.message
    await writes(rights("update", "binding"), on(), {}, new)
    with pytest.raises(Invalid, match='verb="patch"'):
        await writes(rights("update", "binding"), on(), {}, new, verb="patch")


@pytest.mark.parametrize(
    "new",
    [
        {},
        {"allocation": {**allocated("n"), "reservedForAnyPod": True}},
        {"allocation": allocated("m"), "reservedFor": RESERVED},
    ],
)
async def test_the_right_to_allocate_is_one_for_the_whole_cluster(new: Tree) -> None:
    with pytest.raises(Invalid, match="at the cluster scope"):
        await writes(rights("update", "binding", namespace="default"), on(), {"allocation": allocated("n")}, new)


async def test_the_right_to_reserve_may_be_one_for_a_namespace() -> None:
    free, reserved = ({"allocation": allocated("n"), "reservedFor": listed} for listed in ([], RESERVED))
    here, elsewhere = (rights("update", "binding", namespace=name) for name in ("default", "other"))
    for old, new in ((free, reserved), (reserved, free)):
        await writes(here, on(), old, new)
        with pytest.raises(Invalid, match='in the namespace "default"'):
            await writes(elsewhere, on(), old, new)


@pytest.mark.parametrize("verb", ["update", "patch"])
async def test_a_driver_writes_about_devices_of_its_node(verb: str) -> None:
    old, new = ({"allocation": allocated("n"), "devices": devices} for devices in ([], [said(a="b")]))
    plugin = rights(f"associated-node:{verb}", "driver")
    await writes(plugin, on("n"), old, new, verb)
    for user in (on("m"), on(), on("n", "m"), User("jane", extra={NODE_NAME: ("n",)})):
        with pytest.raises(Invalid, match=f"cannot arbitrary-node:{verb} resource"):
            await writes(plugin, user, old, new, verb)
    await writes(rights(f"arbitrary-node:{verb}", "driver"), on("n"), old, new, verb)


@pytest.mark.parametrize("nodes", [(), ("n", "m")])
async def test_devices_of_no_single_node_need_the_right_for_any(nodes: tuple[str, ...]) -> None:
    old, new = ({"allocation": allocated(*nodes), "devices": devices} for devices in ([], [said(a="b")]))
    with pytest.raises(Invalid, match="cannot arbitrary-node:update"):
        await writes(rights("associated-node:update", "driver"), on("n"), old, new)
    await writes(rights("arbitrary-node:update", "driver", namespace="default"), on("n"), old, new)


@pytest.mark.parametrize("old", [[said(OTHER, a="b")], [said(OTHER)]])
@pytest.mark.parametrize("new", [[], [said(OTHER, a="c")]])
async def test_a_driver_leaves_the_devices_of_others_alone(old: list[Tree], new: list[Tree]) -> None:
    allocation = allocated("n", drivers=(DRIVER, OTHER))
    plugin = rights("associated-node:update", "driver", names=DRIVER)
    with pytest.raises(Invalid, match=r"changing status\.devices requires"):
        await writes(
            plugin, on("n"), {"allocation": allocation, "devices": old}, {"allocation": allocation, "devices": new}
        )
    mine = {"allocation": allocation, "devices": [*old, said()]}
    await writes(plugin, on("n"), {"allocation": allocation, "devices": old}, mine)


async def test_what_is_said_about_devices_goes_with_their_allocation() -> None:
    old = {"allocation": allocated("n"), "devices": [said(a="b")]}
    await writes(rights("update", "binding"), on(), old, {})


async def test_other_writes_and_administrators_are_not_asked() -> None:
    old, new = {"allocation": allocated("n")}, {"allocation": allocated("n"), "devices": [said()]}
    await writes(rights(), ADMIN, old, new)
    await update(rights(), claim("c", status=old), claim("c", status=new), user=on())
    await writes(rights(), on(), new, new)


@pytest.mark.parametrize("user", ["system:kube-scheduler", "system:kube-controller-manager"])
async def test_scheduler_and_controllers_may_bind(user: str) -> None:
    plugin = ClaimStatusRights(Union(Rbac(Objects(*(tree for _, tree in policy())))))
    for verb in ("update", "patch"):
        await writes(plugin, User(user), {}, {"allocation": allocated(), "reservedFor": RESERVED}, verb)
