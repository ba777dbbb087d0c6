"""Nodes write what is their own; drivers write the slices of their node."""

from typing import Any

import pytest

from dray.api.errors import Forbidden, NotFound
from dray.api.types.authentication import BoundObjectReference, TokenRequest, TokenRequestSpec
from dray.api.types.core import Binding, ObjectReference
from dray.api.types.policy import Eviction
from dray.apiserver.admission import Chain
from dray.apiserver.admission.node_restriction import NodeRestriction, NodeSlices
from dray.apiserver.authorization import Union
from dray.apiserver.authorization.rbac import Rbac
from dray.apiserver.user import ADMIN, NODE_NAME, User, node_user, service_account_user
from tests.apiserver.admission.writing import about, create, delete, update
from tests.apiserver.reading import Objects, account, account_subject, binding, node, pod, role, rule, slice_

NODE = node_user("n1")


@pytest.fixture
def plugin() -> NodeRestriction:
    return NodeRestriction(Objects())


def lease(name: str, namespace: str = "kube-node-lease") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


async def test_node_writes_its_own_slices_only(plugin: NodeRestriction) -> None:
    own, other, everywhere = slice_("a", "n1"), slice_("b", "n2"), slice_("c")
    await create(plugin, own, user=NODE)
    await update(plugin, own, own, user=NODE)
    await delete(plugin, own, user=NODE)
    for foreign in (other, everywhere):
        with pytest.raises(Forbidden, match="can only create ResourceSlice with the same NodeName"):
            await create(plugin, foreign, user=NODE)
        with pytest.raises(Forbidden, match="can only update"):
            await update(plugin, foreign, own, user=NODE)
        with pytest.raises(Forbidden, match="can only delete"):
            await delete(plugin, foreign, user=NODE)


async def test_others_are_not_confined(plugin: NodeRestriction) -> None:
    for user in (ADMIN, User("system:node:n1"), service_account_user("kube-system", "x")):
        await create(plugin, slice_("b", "n2"), user=user)
        await delete(plugin, pod("p", node="n2"), user=user)


async def test_node_writes_the_status_of_its_own_pods(plugin: NodeRestriction) -> None:
    old, new = pod("p", node="n1"), pod("p", node="n1", status={"phase": "Running"})
    await update(plugin, old, new, user=NODE, subresource="status")
    with pytest.raises(Forbidden, match=r'node "n1" can only update the status of pods'):
        await update(plugin, old, new, user=NODE)
    for elsewhere in ("n2", ""):
        with pytest.raises(
            Forbidden, match=r'node "n1" can only update status for pods with spec.nodeName set to itself'
        ):
            await update(plugin, pod("p", node=elsewhere), pod("p", node=elsewhere), user=NODE, subresource="status")


async def test_node_changes_neither_labels_nor_claims_of_a_pod(plugin: NodeRestriction) -> None:
    old, labelled = pod("p", node="n1"), pod("p", node="n1")
    labelled["metadata"]["labels"] = {"app": "x"}
    with pytest.raises(Forbidden, match='node "n1" cannot update labels through pod status'):
        await update(plugin, old, labelled, user=NODE, subresource="status")
    claimed = pod("p", node="n1", status={"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "stolen"}]})
    with pytest.raises(Forbidden, match='node "n1" cannot update resource claim statuses'):
        await update(plugin, old, claimed, user=NODE, subresource="status")


async def test_node_deletes_its_own_pods_only(plugin: NodeRestriction) -> None:
    await delete(plugin, pod("p", node="n1"), user=NODE)
    with pytest.raises(Forbidden, match=r'node "n1" can only delete pods with spec.nodeName set to itself'):
        await delete(plugin, pod("p", node="n2"), user=NODE)


async def test_node_evicts_its_own_pods_only() -> None:
    chain = Chain([NodeRestriction(Objects(pod("own", node="n1"), pod("other", node="n2")))])

    async def evict(name: str) -> None:
        asked = about("CREATE", pod(name), user=NODE, subresource="eviction")
        asked.object = Eviction()
        await chain.validate(asked)

    await evict("own")
    with pytest.raises(Forbidden, match=r"node n1 can only evict pods with spec.nodeName set to itself"):
        await evict("other")
    with pytest.raises(NotFound, match='pods "missing" not found'):
        await evict("missing")


async def test_node_creates_mirror_pods_only(plugin: NodeRestriction) -> None:
    with pytest.raises(Forbidden, match="can only create mirror pods"):
        await create(plugin, pod("p", node="n1"), user=NODE)
    mirror, elsewhere = pod("p", node="n1"), pod("p", node="n2")
    for tree in (mirror, elsewhere):
        tree["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    await create(plugin, mirror, user=NODE)
    with pytest.raises(Forbidden, match=r"can only create pods with spec.nodeName set to itself"):
        await create(plugin, elsewhere, user=NODE)


async def test_node_binds_nothing(plugin: NodeRestriction) -> None:
    asked = about("CREATE", pod("p", node="n1"), user=NODE, subresource="binding")
    asked.object = Binding(target=ObjectReference(name="n1"))
    with pytest.raises(Forbidden, match="cannot bind"):
        await Chain([plugin]).validate(asked)


async def test_node_writes_its_own_node_only(plugin: NodeRestriction) -> None:
    await create(plugin, node("n1"), user=NODE)
    await update(plugin, node("n1"), node("n1", labels={"zone": "a"}), user=NODE)
    with pytest.raises(Forbidden, match='node "n1" is not allowed to modify node "n2"'):
        await update(plugin, node("n2"), node("n2"), user=NODE, subresource="status")
    with pytest.raises(Forbidden, match="not allowed to delete"):
        await delete(plugin, node("n1"), user=NODE)


async def test_node_changes_neither_protected_labels_nor_taints(plugin: NodeRestriction) -> None:
    label = {"node-restriction.kubernetes.io/team": "a"}
    with pytest.raises(Forbidden, match=r"not allowed to modify labels: node-restriction.kubernetes.io/team"):
        await create(plugin, node("n1", labels=label), user=NODE)
    with pytest.raises(Forbidden, match="not allowed to modify labels"):
        await update(plugin, node("n1", labels=label), node("n1"), user=NODE)
    await update(plugin, node("n1", labels=label), node("n1", labels=label), user=NODE)
    tainted = {**node("n1"), "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    with pytest.raises(Forbidden, match="not allowed to modify taints"):
        await update(plugin, tainted, node("n1"), user=NODE)


async def test_node_writes_its_own_lease_only(plugin: NodeRestriction) -> None:
    await create(plugin, lease("n1"), user=NODE)
    with pytest.raises(Forbidden, match="same name as the requesting node"):
        await create(plugin, lease("n2"), user=NODE)
    with pytest.raises(Forbidden, match='leases in the "kube-node-lease" system namespace'):
        await create(plugin, lease("n1", "kube-system"), user=NODE)


@pytest.mark.parametrize(
    ("bound", "refused"),
    [
        ({}, "not bound to a pod"),
        ({"kind": "Secret", "name": "p"}, "not bound to a pod"),
        ({"name": "p", "uid": ""}, "without a uid"),
        ({"name": "p", "uid": "wrong"}, "does not match the UID"),
        ({"name": "gone", "uid": "1"}, "does not match the UID"),
        ({"name": "p", "uid": "1"}, ""),
        ({"name": "other", "uid": "2"}, "scheduled on a different node"),
    ],
)
async def test_node_gets_tokens_for_its_own_pods_only(bound: dict[str, str], refused: str) -> None:
    mine, other = pod("p", node="n1"), pod("other", node="n2")
    mine["metadata"]["uid"], other["metadata"]["uid"] = "1", "2"
    asked = about("CREATE", account("robot"), user=NODE, subresource="token")
    reference = BoundObjectReference(**{"apiVersion": "v1", "kind": "Pod", **bound}) if bound else None
    asked.object = TokenRequest(spec=TokenRequestSpec(boundObjectRef=reference))
    plugin = NodeRestriction(Objects(mine, other))
    if not refused:
        await Chain([plugin]).validate(asked)
        return
    with pytest.raises(Forbidden, match=refused):
        await Chain([plugin]).validate(asked)


# Drivers


def driver(*nodes: str) -> User:
    return service_account_user("drivers", "gpu", extra={NODE_NAME: nodes} if nodes else {})


def confined(*trees: Any) -> NodeSlices:
    return NodeSlices(Union(Rbac(Objects(*trees))))


async def test_driver_writes_the_slices_of_its_node() -> None:
    plugin, own = confined(), slice_("a", "n1")
    await create(plugin, own, user=driver("n1"))
    await update(plugin, own, own, user=driver("n1"))
    await delete(plugin, own, user=driver("n1"))


@pytest.mark.parametrize(
    ("tree", "what"),
    [(slice_("b", "n2"), "resourceslices on node 'n2'"), (slice_("c"), "cluster resourceslices")],
)
async def test_driver_writes_no_other_slices(tree: dict[str, Any], what: str) -> None:
    plugin, text = confined(), f"this user running on node 'n1' may not modify {what}"
    for attempt in (
        create(plugin, tree, user=driver("n1")),
        update(plugin, tree, tree, user=driver("n1")),
        update(plugin, tree, slice_("b", "n1"), user=driver("n1")),
        delete(plugin, tree, user=driver("n1")),
    ):
        with pytest.raises(Forbidden, match=text):
            await attempt


async def test_two_node_names_are_none() -> None:
    with pytest.raises(Forbidden):
        await create(confined(), slice_("a", "n1"), user=driver("n1", "n2"))


async def test_users_without_node_and_people_are_not_confined() -> None:
    await create(confined(), slice_("b", "n2"), user=driver())
    await create(confined(), slice_("b", "n2"), user=User("jane", extra={NODE_NAME: ("n1",)}))


async def test_driver_can_be_exempted() -> None:
    plugin = confined(
        role("any", rule("publish-for-any-node", "resourceslices", "resource.k8s.io")),
        binding("any", "any", account_subject("gpu", "drivers")),
    )
    await create(plugin, slice_("c"), user=driver("n1"))
