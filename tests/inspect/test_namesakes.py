"""What explanations must not mix up: objects of the same name, owners that do not control, news and old news, others' quota."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.reasons.causes.claim_use import ClaimElsewhere
from dray.api.reasons.causes.device_binding import DevicesFailed
from dray.api.reasons.causes.not_created import PodsNotMade
from dray.api.reasons.causes.pod_groups import GangIncomplete
from dray.api.types.apps import ReplicaSet
from dray.api.types.core import Event, Pod, ResourceQuota
from dray.inspect.explain import explain_pod
from dray.inspect.placement import Allowance
from dray.inspect.quotas import quota_cause
from dray.inspect.snapshot import Snapshot
from dray.inspect.suggesting.subject import maker_of
from dray.inspect.workloads import WorkloadCase
from dray.questions.occupancy import node_rows
from tests import objects
from tests.inspect.objects import DRIVER, claim, class_, gpus, group, held, node, pod, quota, shared
from tests.inspect.test_explain import attaching

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
RUNNING = {"phase": "Running"}


def replica_set(replicas: int = 1, uid: str = "set", **metadata: Any) -> ReplicaSet:
    tree = objects.deployment("web", replicas, namespace="default", metadata={"uid": uid, **metadata})
    return msgspec.convert({**tree, "kind": "ReplicaSet"}, ReplicaSet)


def owned(name: str, *, controller: bool = True, uid: str = "set", created: str = OLD, **more: Any) -> Pod:
    """A pod of the set on a node, unless it says otherwise."""
    one = pod(name, claims=[], **{"nodeName": "n1", "status": RUNNING, **more})
    tree = msgspec.to_builtins(one)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": controller}
    tree["metadata"] |= {"ownerReferences": [owner], "creationTimestamp": created}
    return msgspec.convert(tree, Pod)


def refusal(uid: str = "set") -> Event:
    meant = {"kind": "ReplicaSet", "namespace": "default", "name": "web", "uid": uid}
    tree = {
        "metadata": {"name": "e", "namespace": "default"},
        "reason": "FailedCreate",
        "message": "no",
        "type": "Warning",
    }
    return msgspec.convert({**tree, "involvedObject": meant, "lastTimestamp": OLD}, Event)


@pytest.mark.parametrize(
    ("others", "code", "of"),
    [
        ((), "PodsNotMade", 2),
        ((owned("a"), owned("b")), "AllRun", 2),
        ((owned("a"), owned("b", controller=False)), "PodsNotMade", 2),
        ((owned("a"), owned("b", uid="another set")), "PodsNotMade", 2),
        ((owned("a"), owned("b"), owned("c", status={"phase": "Failed"})), "AllRun", 2),
        ((refusal(),), "ServiceAccountMissing", 0),
        ((refusal("another set"),), "PodsNotMade", 2),
        ((refusal(), owned("a", created=NEW)), "PodsNotMade", 2),
        ((refusal(), owned("a"), owned("b")), "AllRun", 2),
    ],
)
def test_what_belongs_to_a_workload(others: tuple[Any, ...], code: str, of: int) -> None:
    web = replica_set(2)
    found, _ = WorkloadCase(Snapshot.of(node(), web, *others), web, Allowance()).finding()
    assert (found.cause.code, getattr(found.cause, "pods", getattr(found.cause, "wanted", 0))) == (code, of)


def test_a_pod_that_goes_is_still_to_be_replaced() -> None:
    web, leaving = replica_set(), owned("a")
    tree = msgspec.to_builtins(leaving)
    tree["metadata"]["deletionTimestamp"] = NEW
    found, _ = WorkloadCase(Snapshot.of(node(), web, msgspec.convert(tree, Pod)), web, Allowance()).finding()
    assert found.cause == PodsNotMade(existing=1, wanted=2)


def test_a_pod_is_changed_where_its_controller_writes_it() -> None:
    assert maker_of(owned("a"), Snapshot.of(replica_set())) is not None
    assert maker_of(owned("a"), Snapshot.of(replica_set(uid="another set"))) is None
    assert maker_of(owned("a", controller=False), Snapshot.of(replica_set())) is None


def test_only_quota_that_counts_an_object_refuses_it() -> None:
    full = quota({"gpu.deviceclass.resource.k8s.io/devices": "2"}, {"gpu.deviceclass.resource.k8s.io/devices": "2"})
    found = quota_cause(Snapshot.of(full), "default", claim())
    assert found is not None
    assert (found.quota, found.used) == ("q", "2")
    assert quota_cause(Snapshot.of(full), "other", claim()) is None
    lowered = {"big.deviceclass.resource.k8s.io/devices": "1"}, {"big.deviceclass.resource.k8s.io/devices": "3"}
    assert quota_cause(Snapshot.of(quota(*lowered)), "default", claim()) is None
    assert isinstance(full, ResourceQuota)


def test_a_device_of_which_shares_are_held_is_not_taken_whole() -> None:
    snapshot = Snapshot.of(gpus(), shared("s", "gpu-0", memory="1Gi"), held("h", "gpu-1"))
    assert {device.device for device in snapshot.taken} == {"gpu-1"}
    assert {device.device for device in snapshot.holders} == {"gpu-0", "gpu-1"}


def test_a_pod_is_told_of_others_that_use_its_claim() -> None:
    there = held("c", "gpu-0", node="n2", by=("p", "other"))
    cluster = (node("n1"), node("n2", cpu="100m"), gpus("n1"), gpus("n2"), class_())
    found = explain_pod(Snapshot.of(*cluster, there, pod()), "default", "p").cause
    assert isinstance(found, ClaimElsewhere)
    assert (found.claim, found.users) == ("c", ("other",))


@pytest.mark.parametrize(
    "other",
    [
        pod("q", claims=[], schedulingGroup={"podGroupName": "h"}),
        pod("q", claims=[], schedulingGroup={"podGroupName": "g"}, status={"phase": "Succeeded"}, nodeName="n1"),
    ],
    ids=["of another group", "finished"],
)
def test_only_members_that_are_still_to_run_complete_a_gang(other: Pod) -> None:
    one = pod(claims=[], schedulingGroup={"podGroupName": "g"})
    snapshot = Snapshot.of(node(), group(gang=2), group("h"), one, other)
    found = explain_pod(snapshot, "default", "p").cause
    assert found == GangIncomplete("g", pods=1, min_count=2)


def test_of_two_claims_the_one_that_failed_is_told() -> None:
    waiting, failed = attaching(), attaching(broken="no cable")
    tree = msgspec.to_builtins(failed)
    tree["metadata"] |= {"name": "d", "uid": "claim-d"}
    other = msgspec.convert(tree, type(failed))
    cluster = Snapshot.of(node(), gpus(), class_(), waiting, other, pod(claims=("c", "d")))
    found = explain_pod(cluster, "default", "p").cause
    assert isinstance(found, DevicesFailed)
    assert (found.claim, found.message) == ("d", "no cable")


def test_an_unhealthy_device_in_use_counts_as_used() -> None:
    health = {"resourceID": f"{DRIVER}/n1/gpu-0", "health": "Unhealthy"}
    told = [{"name": "c", "allocatedResourcesStatus": [{"name": "claim:c", "resources": [health]}]}]
    user = pod("other", nodeName="n1", status={**RUNNING, "containerStatuses": told})
    [row] = node_rows(Snapshot.of(gpus("n1", 2), held("c", "gpu-0"), user))
    assert (row.allocated, row.available, row.unavailable, row.unhealthy) == (1, 1, 0, 1)
