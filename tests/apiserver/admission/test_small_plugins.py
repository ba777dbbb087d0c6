"""Priorities, tolerations, admin access and the pace of pool status requests."""

from typing import Any

import pytest

from dray.api.errors import Forbidden, Invalid, TooManyRequests
from dray.api.users import User
from dray.apiserver.admission.admin_access import AdminAccess
from dray.apiserver.admission.pool_status import PoolStatusLimit, RequestLimits
from dray.apiserver.admission.priority import Priority
from dray.apiserver.admission.tolerations import DefaultTolerationSeconds
from tests import objects
from tests.apiserver.admission.writing import create, update
from tests.apiserver.reading import Objects, claim, exactly, namespace, pod

# Priority


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    tree = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    return {**tree, "preemptionPolicy": "PreemptLowerPriority", **fields}


def group(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "g", "namespace": "default"}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


async def test_priority_without_classes_is_zero() -> None:
    tree = pod("p")
    await create(Priority(Objects()), tree)
    assert tree["spec"]["priority"] == 0
    assert tree["spec"]["preemptionPolicy"] == "PreemptLowerPriority"


async def test_class_becomes_a_number_for_pods_and_groups() -> None:
    plugin = Priority(Objects(priority_class("high", 1000, preemptionPolicy="Never")))
    tree = pod("p", priorityClassName="high")
    await create(plugin, tree)
    assert (tree["spec"]["priority"], tree["spec"]["preemptionPolicy"]) == (1000, "Never")
    tree = group(priorityClassName="high")
    await create(plugin, tree)
    assert tree["spec"] == {"priorityClassName": "high", "priority": 1000}


async def test_default_class_counts_and_is_noticed_when_it_appears() -> None:
    objects = Objects()
    plugin = Priority(objects)
    await create(plugin, pod("p"))
    objects.put(priority_class("usual", 7, globalDefault=True))
    tree = pod("p")
    await create(plugin, tree)
    assert (tree["spec"]["priority"], tree["spec"]["priorityClassName"]) == (7, "usual")


async def test_unknown_class_is_refused() -> None:
    with pytest.raises(Forbidden, match='pods "p" is forbidden: no PriorityClass with name nope was found'):
        await create(Priority(Objects()), pod("p", priorityClassName="nope"))


async def test_number_that_is_not_the_classes_is_refused() -> None:
    with pytest.raises(Forbidden, match=r"the integer value of priority \(5\) must not be provided in pod spec"):
        await create(Priority(Objects()), pod("p", priority=5))
    await create(Priority(Objects()), pod("p", priority=0))
    with pytest.raises(Forbidden, match=r"the string value of PreemptionPolicy \(Never\)"):
        await create(Priority(Objects()), pod("p", preemptionPolicy="Never"))


async def test_client_that_does_not_know_priorities_keeps_them() -> None:
    new = pod("p")
    await update(Priority(Objects()), pod("p", priority=7, preemptionPolicy="Never"), new)
    assert (new["spec"]["priority"], new["spec"]["preemptionPolicy"]) == (7, "Never")


async def test_one_default_class_is_enough() -> None:
    plugin = Priority(Objects(priority_class("a", 1, globalDefault=True)))
    with pytest.raises(Forbidden, match="PriorityClass a is already marked as default"):
        await create(plugin, priority_class("b", 2, globalDefault=True))
    same = priority_class("a", 1, globalDefault=True)
    await update(plugin, same, same)


# Tolerations


def toleration(key: str, seconds: int = 300) -> dict[str, Any]:
    return {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], ["not-ready", "unreachable"]),
        ([toleration("not-ready", 5)], ["unreachable"]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], ["not-ready", "unreachable"]),
        ([{"key": "gpu", "operator": "Exists"}], ["not-ready", "unreachable"]),
    ],
)
async def test_quiet_nodes_are_tolerated_for_a_while(given: list[dict[str, Any]], added: list[str]) -> None:
    tree = pod("p", tolerations=given)
    await create(DefaultTolerationSeconds(), tree)
    assert tree["spec"]["tolerations"] == given + [toleration(key) for key in added]


async def test_status_updates_get_no_tolerations() -> None:
    tree = pod("p")
    await update(DefaultTolerationSeconds(), pod("p"), tree, subresource="status")
    assert "tolerations" not in tree["spec"]


# Admin access

ADMIN_TEXT = (
    "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the "
    "containing namespace"
)


def template(*requests: dict[str, Any]) -> dict[str, Any]:
    return objects.template(requests=list(requests), namespace="default")


@pytest.mark.parametrize("make", [lambda *requests: claim("c", *requests), template])
@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        ({}, True),
        ({"resource.kubernetes.io/admin-access": "yes"}, True),
        ({"resource.k8s.io/admin-access": "true"}, True),
        ({"resource.kubernetes.io/admin-access": "true"}, False),
    ],
)
async def test_admin_access_needs_the_label(make: Any, labels: dict[str, str], refused: bool) -> None:
    plugin = AdminAccess(Objects(namespace("default", labels=labels)))
    await create(plugin, make(exactly("r")))
    tree = make(exactly("r"), exactly("s", adminAccess=True))
    if not refused:
        await create(plugin, tree)
        return
    with pytest.raises(Invalid) as caught:
        await create(plugin, tree)
    assert str(caught.value.errors[0]) == f"spec.devices.requests[1].adminAccess: {ADMIN_TEXT}"


def allocated(admin: bool) -> dict[str, Any]:
    result = {"request": "r", "driver": "d", "pool": "p", "device": "x", **({"adminAccess": True} if admin else {})}
    return claim("c", exactly("r"), status={"allocation": {"devices": {"results": [result]}}})


async def test_allocation_does_not_grant_what_may_not_be_asked() -> None:
    plugin = AdminAccess(Objects(namespace("default")))
    await update(plugin, claim("c", exactly("r")), allocated(False), subresource="status")
    with pytest.raises(Invalid, match=r"status.allocation.devices.results\[0\].adminAccess"):
        await update(plugin, claim("c", exactly("r")), allocated(True), subresource="status")
    await update(plugin, allocated(True), allocated(True), subresource="status")


# Policies


# Pool status requests


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def pool_request(name: str = "r") -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": name},
        "spec": {"driver": "gpu.example.com"},
    }


async def test_user_has_a_burst_and_then_a_pace() -> None:
    clock = Clock()
    plugin = PoolStatusLimit(Objects(), clock=clock)
    for _ in range(20):
        await create(plugin, pool_request())
    with pytest.raises(TooManyRequests) as caught:
        await create(plugin, pool_request())
    assert caught.value.details["retryAfterSeconds"] == 6
    await create(plugin, pool_request(), user=User("jane"))
    clock.now += 6
    await create(plugin, pool_request())
    with pytest.raises(TooManyRequests):
        await create(plugin, pool_request())
    clock.now += 3600
    for _ in range(20):
        await create(plugin, pool_request())
    with pytest.raises(TooManyRequests):
        await create(plugin, pool_request())


async def test_dry_runs_and_other_writes_do_not_count() -> None:
    plugin = PoolStatusLimit(Objects(), RequestLimits(burst=1))
    for _ in range(3):
        await create(plugin, pool_request(), dry_run=True)
        await update(plugin, pool_request(), pool_request(), subresource="status")
        await create(plugin, pod("p"))
    await create(plugin, pool_request())


async def test_cluster_holds_no_more_than_the_cap() -> None:
    plugin = PoolStatusLimit(Objects(pool_request("a"), pool_request("b")), RequestLimits(cap=2))
    with pytest.raises(TooManyRequests, match="the cluster holds 2"):
        await create(plugin, pool_request("c"))


async def test_users_with_a_full_burst_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.apiserver.admission.pool_status.MANY_USERS", 10)
    clock = Clock()
    plugin = PoolStatusLimit(Objects(), clock=clock)
    for number in range(50):
        await create(plugin, pool_request(), user=User(f"u{number}"))
        clock.now += 6
    assert len(plugin._buckets) <= 12
