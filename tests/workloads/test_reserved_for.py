"""KEP-5194: claims that are reserved for a workload as a whole. Tests are named after the proposal's statements."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.claim_access import ClaimUse, PodClaims
from dray.api.errors import Forbidden
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.nodes import NodeCode
from dray.api.types.batch import Job
from dray.api.types.core import ConfigMap, Pod
from dray.api.types.rbac import Role, RoleBinding
from dray.api.types.resource import ResourceClaim
from dray.api.users import AUTHENTICATED, User
from dray.client import InProcess, ManualClock
from dray.client.clock import settle
from dray.controllers.references import References
from dray.core.attempt import Promise
from dray.scheduler.binding import Binder, Overtaken
from tests.controllers.conftest import gone, quiet
from tests.saying import words_of
from tests.waiting import eventually
from tests.workloads.cluster import Cluster


async def workload(cluster: Cluster, name: str = "w") -> dict[str, Any]:
    """Something that stands for a workload, and the reference to it."""
    made = await cluster.client.create(ConfigMap, {"metadata": {"name": name}}, namespace="ns")
    return {"resource": "configmaps", "name": name, "uid": made.metadata.uid}


async def job(cluster: Cluster, name: str = "j") -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    spec = {"suspend": True, "template": template}
    made = await cluster.client.create(Job, {"metadata": {"name": name}, "spec": spec}, namespace="ns")
    return {"apiGroup": "batch", "resource": "jobs", "name": name, "uid": made.metadata.uid}


async def give_back(cluster: Cluster, name: str = "c") -> None:
    """What the owner of a workload does in the end."""
    await list_only(cluster, name=name)


async def list_only(cluster: Cluster, *references: dict[str, Any], name: str = "c") -> None:
    """Replace the reservations of a claim."""
    patch = {"status": {"reservedFor": [*references] or None}}
    await cluster.client.patch(ResourceClaim, name, patch, "ns", subresource="status")


# Allocation


async def test_the_first_pod_copies_the_reference_and_opens_the_claim_to_any_pod(cluster: Cluster) -> None:
    reference = await workload(cluster)
    await cluster.claim(reservedFor=reference)
    await cluster.pod("p", x="c")
    await cluster.running("p")
    status = (await cluster.read()).status
    assert [(r.resource, r.name, r.uid) for r in status.reservedFor] == [("configmaps", "w", reference["uid"])]
    assert status.allocation is not None
    assert status.allocation.reservedForAnyPod is True


async def test_without_a_reference_in_the_spec_the_pods_are_listed(cluster: Cluster) -> None:
    await cluster.claim()
    await cluster.pod("p", x="c")
    await cluster.pod("q", x="c")
    await cluster.running("p", "q")
    claim = await cluster.reserved("p", "q")
    assert claim.status.allocation is not None
    assert claim.status.allocation.reservedForAnyPod is None


async def test_no_reference_is_added_for_pods_that_come_later(cluster: Cluster) -> None:
    await cluster.claim(reservedFor=await workload(cluster))
    await cluster.pod("p", x="c")
    await cluster.running("p")
    before = await cluster.read()
    names = [f"p{n}" for n in range(300)]
    for name in names:
        await cluster.pod(name, x="c")

    async def all_run() -> bool:
        pods = (await cluster.client.list(Pod, "ns")).items
        return sum(pod.status.phase == "Running" for pod in pods) == len(names) + 1

    await eventually(all_run)
    assert (await cluster.read()).metadata.resourceVersion == before.metadata.resourceVersion


async def test_a_claim_from_a_template_carries_the_reference(cluster: Cluster) -> None:
    await cluster.template(reservedFor=await workload(cluster))
    await cluster.pod("p", x="t:t")
    await cluster.running("p")
    assert [r.name for r in (await cluster.the_claim()).status.reservedFor] == ["w"]


# Deallocation


async def test_the_claim_is_deallocated_when_the_owner_removes_its_reference(cluster: Cluster) -> None:
    await cluster.claim(reservedFor=await workload(cluster))
    await cluster.pod("p", x="c")
    await cluster.running("p")
    await cluster.delete("p")
    await gone(cluster.client, Pod, "p", "ns")
    await quiet()
    assert (await cluster.read()).status.allocation is not None
    await give_back(cluster)
    await cluster.free()


@pytest.mark.parametrize("ended", ["before", "after"])
async def test_a_claim_that_does_not_mention_its_workload_is_deallocated_with_the_last_reference(
    cluster: Cluster, ended: str
) -> None:
    """Whoever takes the last reference away frees the devices, but not under a pod that runs."""
    await cluster.claim()
    await cluster.pod("p", x="c")
    await cluster.running("p")
    await list_only(cluster, await workload(cluster))
    if ended == "before":
        await cluster.finish("p")
        await quiet(0.2)
    await give_back(cluster)
    if ended == "after":
        await quiet(0.3)
        assert (await cluster.read()).status.allocation is not None
        await cluster.finish("p")
    await cluster.free()


async def test_devices_are_not_freed_under_a_pod_whose_owner_was_too_early(cluster: Cluster) -> None:
    await cluster.claim(reservedFor=await workload(cluster))
    await cluster.pod("p", x="c")
    await cluster.running("p")
    await give_back(cluster)
    await quiet(0.3)
    assert (await cluster.read()).status.allocation is not None
    await cluster.finish("p")
    await cluster.free()


async def test_the_last_listed_pod_does_not_free_devices_under_pods_that_are_not_listed(cluster: Cluster) -> None:
    await cluster.claim(reservedFor=await workload(cluster))
    listed = await cluster.pod("p", x="c")
    await cluster.pod("q", x="c")
    await cluster.running("p", "q")
    await list_only(cluster, {"resource": "pods", "name": "p", "uid": listed.metadata.uid})
    await cluster.delete("p")
    await cluster.reserved()
    await quiet(0.3)
    assert (await cluster.read()).status.allocation is not None
    await cluster.finish("q")
    await cluster.free()


async def test_a_pod_that_stands_for_a_workload_does_not_take_the_devices_of_others_along(cluster: Cluster) -> None:
    lead = await cluster.pod("lead")
    await cluster.claim(reservedFor={"resource": "pods", "name": "lead", "uid": lead.metadata.uid})
    await cluster.pod("p", x="c")
    await cluster.running("p")
    await cluster.delete("lead")
    await cluster.reserved()
    await quiet(0.3)
    assert (await cluster.read()).status.allocation is not None
    await cluster.finish("p")
    await cluster.free()


async def test_a_pod_that_stands_for_a_workload_frees_the_claim_when_it_ends_last(cluster: Cluster) -> None:
    lead = await cluster.pod("lead")
    await cluster.claim(reservedFor={"resource": "pods", "name": "lead", "uid": lead.metadata.uid})
    await cluster.pod("p", x="c")
    await cluster.running("p")
    await cluster.finish("p")
    await quiet()
    await cluster.reserved("lead")
    await cluster.finish("lead")
    await cluster.free()


async def test_the_scheduler_frees_an_open_claim_that_nobody_uses_where_a_pod_cannot_run(cluster: Cluster) -> None:
    """Neither waits for the other, but a pod that runs is never left without its devices."""
    await cluster.local_devices("node-0", "node-1")
    await cluster.claim(reservedFor=await workload(cluster))
    await cluster.pod("p", node="node-0", x="c")
    await cluster.running("p")
    await give_back(cluster)
    await cluster.pod("q", node="node-1", x="c")
    await cluster.waits("q", words_of(NodeCode.CLAIM_ELSEWHERE))
    await quiet(0.3)
    claim = await cluster.read()
    assert claim.status.allocation is not None
    assert claim.status.allocation.nodeSelector is not None
    await cluster.finish("p")
    await cluster.running("q")
    await cluster.reserved("w")


@pytest.mark.parametrize("left", ["by its owner", "by an owner that is gone"])
async def test_devices_are_not_freed_under_a_pod_that_may_be_on_its_way_to_a_node(idle: Cluster, left: str) -> None:
    clock = ManualClock()
    await shared_claim(idle, clock, await workload(idle))
    await idle.stop("scheduler")
    await idle.pod("q", x="c")
    if left == "by its owner":
        await give_back(idle)
    else:
        await idle.client.delete(ConfigMap, "w", "ns")
    await idle.finish("p")
    await clock.advance(30)
    await quiet(0.3)
    assert (await idle.read()).status.allocation is not None
    await idle.start("scheduler")
    await idle.running("q")
    await idle.reserved("w")
    await idle.finish("q")
    if left == "by its owner":
        await give_back(idle)
    await idle.free()


async def test_a_claim_that_is_deleted_and_lists_nobody_does_not_wait_for_pods_without_a_node(idle: Cluster) -> None:
    clock = ManualClock()
    await shared_claim(idle, clock, await workload(idle))
    await idle.stop("scheduler")
    await idle.pod("q", x="c")
    await give_back(idle)
    await idle.finish("p")
    await quiet()
    await idle.client.delete(ResourceClaim, "c", "ns")
    await gone(idle.client, ResourceClaim, "c", "ns")


async def test_references_to_pods_are_removed_as_ever_beside_others(cluster: Cluster) -> None:
    await cluster.claim(reservedFor=await workload(cluster))
    await cluster.pod("p", x="c")
    await cluster.running("p")
    claim = await cluster.read()
    listed = [{"resource": "pods", "name": "old", "uid": "123"}]
    kept = [{"resource": r.resource, "name": r.name, "uid": r.uid} for r in claim.status.reservedFor]
    await list_only(cluster, *kept, *listed)
    await cluster.reserved("w")


async def test_a_finished_job_gives_its_claim_back(cluster: Cluster) -> None:
    reference = await job(cluster)
    await cluster.claim(reservedFor=reference)
    await cluster.pod("p", x="c")
    await cluster.running("p")
    await cluster.reserved("j")
    await cluster.finish("p")
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    criteria = {**condition, "type": "SuccessCriteriaMet"}
    status = {
        "conditions": [criteria, condition],
        "startTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T00:00:00Z",
    }
    await cluster.client.patch(Job, "j", {"status": status}, "ns", subresource="status")
    await cluster.free()


async def test_a_job_whose_pods_share_a_claim_frees_it_at_its_end(cluster: Cluster) -> None:
    pod = {
        "metadata": {"annotations": {"sim.dray.dev/seconds": "0.1"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "x", "resourceClaimName": "c"}],
        },
    }
    spec = {"suspend": True, "completions": 4, "parallelism": 2, "template": pod}
    made = await cluster.client.create(Job, {"metadata": {"name": "j"}, "spec": spec}, namespace="ns")
    reference = {"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": made.metadata.uid}
    await cluster.claim(reservedFor=reference)
    await cluster.client.patch(Job, "j", {"spec": {"suspend": False}}, "ns")
    await cluster.reserved("j")
    await cluster.free()
    conditions = (await cluster.client.get(Job, "j", "ns")).status.conditions
    assert any(c.type == "Complete" and c.status == "True" for c in conditions)


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_owner_needs_permission_to_write_the_status(cluster: Cluster, allowed: bool) -> None:
    await cluster.claim(reservedFor=await workload(cluster))
    await cluster.pod("p", x="c")
    await cluster.running("p")
    await cluster.delete("p")
    await gone(cluster.client, Pod, "p", "ns")
    resources = ["resourceclaims/status", "resourceclaims/binding"] if allowed else ["resourceclaims"]
    rule = {"apiGroups": ["resource.k8s.io"], "resources": resources, "verbs": ["patch"]}
    await cluster.client.create(Role, {"metadata": {"name": "owner"}, "rules": [rule]}, namespace="ns")
    binding = {
        "metadata": {"name": "owner"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "owner"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "owner"}],
    }
    await cluster.client.create(RoleBinding, binding, namespace="ns")
    owner = InProcess(cluster.server.api, User("owner", groups=(AUTHENTICATED,)))
    patch = {"status": {"reservedFor": None}}
    if allowed:
        await owner.patch(ResourceClaim, "c", patch, "ns", subresource="status")
        await cluster.free()
    else:
        with pytest.raises(Forbidden, match="cannot patch resource"):
            await owner.patch(ResourceClaim, "c", patch, "ns", subresource="status")


async def test_a_driver_that_does_not_know_the_field_may_replace_the_status(cluster: Cluster) -> None:
    await cluster.claim(reservedFor=await workload(cluster))
    await cluster.pod("p", x="c")
    await cluster.running("p")
    tree = msgspec.to_builtins(await cluster.read())
    del tree["status"]["allocation"]["reservedForAnyPod"]
    (result,) = tree["status"]["allocation"]["devices"]["results"]
    device = {name: result[name] for name in ("driver", "pool", "device")}
    tree["status"]["devices"] = [{**device, "networkData": {"interfaceName": "eth0"}}]
    status = (await cluster.client.update(ResourceClaim, tree, subresource="status")).status
    assert status.allocation is not None
    assert status.allocation.reservedForAnyPod
    assert [d.device for d in status.devices] == [result["device"]]


# Looking whether the referenced object is gone


async def shared_claim(idle: Cluster, clock: ManualClock, reference: dict[str, Any]) -> None:
    await idle.start("scheduler")
    await idle.start("nodes")
    await idle.claim(reservedFor=reference)
    await idle.pod("p", x="c")
    await idle.running("p")
    await idle.start("controllers", clock=clock)
    await clock.advance(1)


async def test_a_deleted_workload_is_noticed_within_thirty_seconds(idle: Cluster) -> None:
    clock = ManualClock()
    await shared_claim(idle, clock, await workload(idle))
    await idle.finish("p")
    await idle.client.delete(ConfigMap, "w", "ns")
    await settle()
    assert [r.name for r in (await idle.read()).status.reservedFor] == ["w"]
    await clock.advance(30)
    await idle.free()


async def test_a_workload_that_was_made_again_is_another_one(idle: Cluster) -> None:
    clock = ManualClock()
    await shared_claim(idle, clock, await workload(idle))
    await idle.finish("p")
    await idle.client.delete(ConfigMap, "w", "ns")
    await workload(idle)
    await clock.advance(30)
    await idle.free()


async def test_the_reference_of_a_deleted_workload_stays_while_a_pod_uses_the_claim(idle: Cluster) -> None:
    clock = ManualClock()
    await shared_claim(idle, clock, await workload(idle))
    await idle.client.delete(ConfigMap, "w", "ns")
    await clock.advance(90)
    assert [r.name for r in (await idle.read()).status.reservedFor] == ["w"]
    await idle.finish("p")
    await idle.free()


async def test_a_workload_of_a_kind_that_cannot_be_read_is_waited_for(idle: Cluster) -> None:
    clock = ManualClock()
    reference = {"apiGroup": "jobset.x-k8s.io", "resource": "jobsets", "name": "w", "uid": "1"}
    await shared_claim(idle, clock, reference)
    await idle.finish("p")
    await clock.advance(120)
    assert (await idle.read()).status.allocation is not None
    await give_back(idle)
    await idle.free()


async def test_a_reader_without_permission_does_not_call_anything_gone(idle: Cluster) -> None:
    await idle.claim(reservedFor=await workload(idle))
    reference = (await idle.read()).spec.reservedFor
    assert reference is not None
    await idle.client.delete(ConfigMap, "w", "ns")
    stranger = InProcess(idle.server.api, User("stranger", groups=(AUTHENTICATED,)))
    assert not await References(stranger, ManualClock()).is_gone("ns", reference)
    assert await References(idle.client, ManualClock()).is_gone("ns", reference)


async def test_an_object_that_is_there_is_not_asked_for_all_the_time(idle: Cluster) -> None:
    await idle.claim(reservedFor=await workload(idle))
    reference = (await idle.read()).spec.reservedFor
    assert reference is not None
    clock = ManualClock()
    references = References(idle.client, clock)
    assert not await references.is_gone("ns", reference)
    await idle.client.delete(ConfigMap, "w", "ns")
    assert not await references.is_gone("ns", reference)
    await clock.advance(30)
    assert await references.is_gone("ns", reference)


# Claims that are being deleted


@pytest.mark.parametrize("through", ["workload", "group"])
async def test_no_pod_joins_a_shared_claim_that_is_being_deleted(cluster: Cluster, through: str) -> None:
    if through == "workload":
        await cluster.claim(reservedFor=await workload(cluster))
        group, entry = "", {"x": "c"}
    else:
        await cluster.claim()
        await cluster.group(x="c")
        group, entry = "g", {"x": "g:x"}
    await cluster.pod("p", group, **entry)
    await cluster.running("p")
    await cluster.client.delete(ResourceClaim, "c", "ns")
    await cluster.pod("q", group, **entry)
    await cluster.waits("q", words_of(ClaimCode.DELETING))
    assert not (await cluster.client.get(Pod, "q", "ns")).spec.nodeName
    tree = msgspec.to_builtins(await cluster.client.get(Pod, "q", "ns"))
    spec = {key: tree["spec"][key] for key in ("containers", "resourceClaims", "workloadRef") if key in tree["spec"]}
    placed = {"metadata": {"name": "r"}, "spec": {**spec, "nodeName": "node-0"}}
    await cluster.client.create(Pod, placed, namespace="ns")
    await cluster.event("FailedPrepareDynamicResources", words_of(ClaimCode.DELETING), about="r")
    assert (await cluster.client.get(Pod, "p", "ns")).status.phase == "Running"


async def test_a_claim_that_is_deleted_while_a_pod_is_bound_lets_it_in_no_more(idle: Cluster) -> None:
    """Nothing is written to a claim that lists a workload, so that only the newest copy tells of the deletion."""
    await idle.start("scheduler")
    await idle.start("nodes")
    claim = await idle.claim(reservedFor=await workload(idle))
    await idle.pod("p", x="c")
    await idle.running("p")
    seen = await idle.read()
    assert seen.metadata.uid == claim.metadata.uid
    await idle.stop("scheduler")
    pod = await idle.pod("q", x="c")
    await idle.client.delete(ResourceClaim, "c", "ns")
    now = await idle.read()
    promise = Promise(PodClaims(pod, None, [ClaimUse(seen, by_group=False)], [], [seen]), "node-0", None, [])
    with pytest.raises(Overtaken, match="being deleted"):
        await Binder(idle.client, latest=lambda namespace, name: now).bind(promise)
    assert not (await idle.client.get(Pod, "q", "ns")).spec.nodeName
