"""KEP-5729: claims of groups, from their creation to their end. Tests are named after the proposal's statements."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from dray.api.errors import Conflict, Forbidden, Invalid
from dray.api.podclaims import CLAIM_FINALIZER, GROUP_FINALIZER
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.groups import GroupCode
from dray.api.reasons.wording import say
from dray.api.types.core import Event, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup, Workload
from tests.client.conftest import listening
from tests.controllers.conftest import exists, gone, quiet
from tests.saying import words_of
from tests.waiting import eventually
from tests.workloads.cluster import Cluster

BOTH_FIELDS = pytest.mark.parametrize("seed", [True, False], ids=["workloadRef", "schedulingGroup"])


# Create


async def test_a_claim_is_generated_for_a_group_and_remains_unallocated(cluster: Cluster) -> None:
    await cluster.template()
    group = await cluster.group(claim="t:t")
    await cluster.has(1)
    await quiet()
    claim = await cluster.the_claim()
    assert claim.status.allocation is None
    assert claim.metadata.name.startswith("g-claim-")
    (owner,) = claim.metadata.ownerReferences
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("PodGroup", "g", group.metadata.uid, True)
    assert claim.metadata.annotations == {"resource.kubernetes.io/podgroup-claim-name": "claim"}


async def test_each_entry_and_each_group_has_a_claim_of_its_own(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group("g1", a="t:t", b="t:t")
    await cluster.group("g2", a="t:t", b="t:t")
    await cluster.has(4)


async def test_the_claim_is_recorded_in_the_status_of_the_group(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")

    async def recorded() -> bool:
        statuses = (await cluster.client.get(PodGroup, "g", "ns")).status.resourceClaimStatuses
        return [(s.name, s.resourceClaimName) for s in statuses] == [
            ("claim", (await cluster.the_claim()).metadata.name)
        ]

    await cluster.has(1)
    await eventually(recorded)


@BOTH_FIELDS
async def test_the_claim_is_recorded_in_the_status_of_each_pod(cluster: Cluster, seed: bool) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    for name in ("p1", "p2"):
        await cluster.pod(name, "g", seed, resource="g:claim")
    await cluster.running("p1", "p2")
    made = (await cluster.the_claim()).metadata.name
    for name in ("p1", "p2"):
        (status,) = (await cluster.client.get(Pod, name, "ns")).status.resourceClaimStatuses
        assert (status.name, status.resourceClaimName) == ("resource", made)


async def test_an_entry_of_equal_name_and_source_is_the_groups_as_in_kubernetes(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.pod("p1", "g", seed=False, claim="t:t")
    await cluster.pod("p2", "g", seed=False, claim="t:t", own="t:t")
    await cluster.running("p1", "p2")
    assert sorted(c.metadata.name.rpartition("-")[0] for c in await cluster.claims()) == ["g-claim", "p2-own"]


async def test_a_missing_template_is_told_to_the_group_and_waited_for(cluster: Cluster) -> None:
    await cluster.group(claim="t:late")
    text = 'PodGroupResourceClaim claim: resource claim template "late": '
    await cluster.event("FailedResourceClaimCreation", text, about="g")
    await cluster.template("late")
    await cluster.has(1)


async def test_pods_that_come_before_their_group_wait_for_it(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.waits("p", say(GroupCode.GROUP_UNKNOWN, group="g"))
    await cluster.group(claim="t:t")
    await cluster.running("p")


async def test_a_generated_claim_that_was_deleted_is_made_again(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.has(1)
    before = (await cluster.the_claim()).metadata
    await cluster.client.delete(ResourceClaim, before.name, "ns")

    async def replaced() -> bool:
        claims = await cluster.claims()
        return len(claims) == 1 and claims[0].metadata.uid != before.uid

    await eventually(replaced)
    assert (await cluster.the_claim()).metadata.name == before.name


# Allocate


async def test_the_first_pod_of_a_group_allocates_the_claim_and_reserves_it_for_the_group(cluster: Cluster) -> None:
    await cluster.template()
    group = await cluster.group(claim="t:t")
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.running("p")
    claim = await cluster.the_claim()
    assert claim.status.allocation is not None
    (reference,) = claim.status.reservedFor
    assert (reference.apiGroup, reference.resource) == ("scheduling.k8s.io", "podgroups")
    assert (reference.name, reference.uid) == ("g", group.metadata.uid)


async def test_subsequent_pods_share_the_claim_and_add_nothing(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.pod("p0", "g", resource="g:claim")
    await cluster.running("p0")
    before = await cluster.the_claim()
    names = [f"p{n}" for n in range(1, 8)]
    for name in names:
        await cluster.pod(name, "g", resource="g:claim")
    await cluster.running(*names)
    after = await cluster.the_claim()
    assert after.metadata.resourceVersion == before.metadata.resourceVersion


async def test_a_claim_named_by_a_group_is_reserved_for_the_group(cluster: Cluster) -> None:
    await cluster.claim("c")
    await cluster.group(claim="c")
    await cluster.pod("p1", "g", resource="g:claim")
    await cluster.pod("p2", "g", seed=False, claim="c")
    await cluster.running("p1", "p2")
    await cluster.reserved("g")


async def test_two_groups_and_a_lone_pod_on_one_claim_are_all_listed(cluster: Cluster) -> None:
    await cluster.claim("c")
    for name in ("g1", "g2"):
        await cluster.group(name, claim="c")
        await cluster.pod(f"{name}-a", name, resource="g:claim")
        await cluster.pod(f"{name}-b", name, resource="g:claim")
    await cluster.pod("lone", x="c")
    await cluster.running("g1-a", "g1-b", "g2-a", "g2-b", "lone")
    await cluster.reserved("g1", "g2", "lone")
    await cluster.delete("lone")
    await cluster.reserved("g1", "g2")
    await cluster.delete("g1-a", "g1-b")
    await cluster.client.delete(PodGroup, "g1", "ns")
    await cluster.reserved("g2")
    await cluster.delete("g2-a", "g2-b")
    await cluster.client.delete(PodGroup, "g2", "ns")
    await cluster.free()


async def test_a_pod_of_a_group_that_names_the_claim_itself_adds_itself(cluster: Cluster) -> None:
    await cluster.claim("c")
    await cluster.group(claim="c")
    await cluster.pod("member", "g", resource="g:claim")
    await cluster.pod("direct", "g", other="c")
    await cluster.running("member", "direct")
    await cluster.reserved("g", "direct")


async def test_more_pods_than_a_claim_has_places_share_it_through_their_group(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    names = [f"p{n}" for n in range(300)]
    for name in names:
        await cluster.pod(name, "g", resource="g:claim")

    async def all_run() -> bool:
        pods = (await cluster.client.list(Pod, "ns")).items
        return sum(pod.status.phase == "Running" for pod in pods) == len(names)

    await eventually(all_run)
    await cluster.reserved("g", name=(await cluster.the_claim()).metadata.name)


# Deallocate and delete


async def test_the_claim_stays_allocated_when_all_pods_of_the_group_are_deleted(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.running("p")
    before = await cluster.the_claim()
    await cluster.delete("p")
    await gone(cluster.client, Pod, "p", "ns")
    await quiet()
    after = await cluster.the_claim()
    assert (after.metadata.uid, after.status) == (before.metadata.uid, before.status)


async def test_the_claim_is_deallocated_and_deleted_after_the_group(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.running("p")
    await cluster.delete("p")
    await cluster.client.delete(PodGroup, "g", "ns")
    await cluster.has(0)
    assert not await exists(cluster.client, PodGroup, "g", "ns")


async def test_a_group_that_is_deleted_in_the_foreground_goes_after_its_pods_and_claims(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.running("p")
    await cluster.client.delete(PodGroup, "g", "ns", propagation="Foreground")
    await quiet(0.3)
    assert (await cluster.the_claim()).status.allocation is not None
    await cluster.delete("p")
    await gone(cluster.client, PodGroup, "g", "ns")
    assert await cluster.claims() == []


async def test_a_deleted_group_that_something_else_keeps_gives_its_claim_back_once_its_pods_are_gone(
    cluster: Cluster,
) -> None:
    await cluster.claim("c")
    await cluster.group(claim="c")
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.running("p")
    await cluster.client.patch(PodGroup, "g", {"metadata": {"finalizers": ["example.com/hold"]}}, "ns")
    await cluster.client.delete(PodGroup, "g", "ns")
    await quiet(0.3)
    await cluster.reserved("g")
    await cluster.delete("p")
    await cluster.free()
    assert await exists(cluster.client, PodGroup, "g", "ns")


async def test_a_claim_that_was_never_allocated_is_deleted_with_its_group(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.has(1)
    await cluster.client.delete(PodGroup, "g", "ns")
    await cluster.has(0)


async def test_a_claim_named_by_a_group_is_deallocated_but_not_deleted(cluster: Cluster) -> None:
    await cluster.claim("c")
    await cluster.group(claim="c")
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.running("p")
    await cluster.delete("p")
    await cluster.client.delete(PodGroup, "g", "ns")
    claim = await cluster.free()
    assert CLAIM_FINALIZER not in claim.metadata.finalizers


async def test_the_finalizer_keeps_the_claim_while_it_is_allocated(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.running("p")
    claim = await cluster.the_claim()
    await cluster.client.delete(ResourceClaim, claim.metadata.name, "ns")
    await quiet()
    held = await cluster.the_claim()
    assert held.metadata.deletionTimestamp is not None
    assert held.status.allocation is not None


# The group itself


async def test_a_group_is_kept_until_its_pods_are_gone(cluster: Cluster) -> None:
    await cluster.group()
    await cluster.pod("p", "g")
    await cluster.running("p")
    await cluster.client.delete(PodGroup, "g", "ns")
    await quiet()
    assert (await cluster.client.get(PodGroup, "g", "ns")).metadata.finalizers == (GROUP_FINALIZER,)
    await cluster.delete("p")
    await gone(cluster.client, PodGroup, "g", "ns")


async def test_a_group_that_is_kept_is_told_once_by_which_pods(cluster: Cluster) -> None:
    await cluster.group()
    await cluster.stop("controllers")  # or it might not have seen all pods yet
    for name in ("a", "b", "c", "d"):
        await cluster.pod(name, "g", resource="missing")
    await cluster.client.delete(PodGroup, "g", "ns")
    await cluster.start("controllers")
    text = "a (Pending), b (Pending), c (Pending) and others"
    await cluster.event("WaitingForPods", text, about="g")
    await cluster.delete("a", "b", "c")
    await quiet()
    events = (await cluster.client.list(Event, "ns")).items
    assert [e.count for e in events if e.reason == "WaitingForPods"] == [1]
    await cluster.delete("d")
    await gone(cluster.client, PodGroup, "g", "ns")


async def test_finished_pods_do_not_keep_their_group(cluster: Cluster) -> None:
    await cluster.group()
    await cluster.pod("p", "g")
    await cluster.running("p")
    await cluster.finish("p")
    await cluster.client.delete(PodGroup, "g", "ns")
    await gone(cluster.client, PodGroup, "g", "ns")
    assert await exists(cluster.client, Pod, "p", "ns")


async def test_a_deleted_group_goes_when_its_last_pod_finishes(cluster: Cluster) -> None:
    await cluster.group()
    for name in ("p", "q"):
        await cluster.pod(name, "g")
    await cluster.running("p", "q")
    await cluster.client.delete(PodGroup, "g", "ns")
    await cluster.finish("p")
    await quiet()
    assert await exists(cluster.client, PodGroup, "g", "ns")
    await cluster.finish("q")
    await gone(cluster.client, PodGroup, "g", "ns")
    assert await exists(cluster.client, Pod, "q", "ns")


async def test_a_deleted_group_keeps_the_finalizers_of_others(cluster: Cluster) -> None:
    await cluster.group()
    await cluster.client.patch(PodGroup, "g", {"metadata": {"finalizers": [GROUP_FINALIZER, "test/hold"]}}, "ns")
    await cluster.client.delete(PodGroup, "g", "ns")

    async def let_go() -> bool:
        return (await cluster.client.get(PodGroup, "g", "ns")).metadata.finalizers == ("test/hold",)

    await eventually(let_go)


async def test_a_finalizer_that_is_missing_is_added(cluster: Cluster) -> None:
    await cluster.group()
    await cluster.client.patch(PodGroup, "g", {"metadata": {"finalizers": None}}, "ns")

    async def back() -> bool:
        return GROUP_FINALIZER in (await cluster.client.get(PodGroup, "g", "ns")).metadata.finalizers

    await eventually(back)


@pytest.mark.parametrize("source", ["t:t", "c"])
async def test_a_finalizer_removed_by_hand_does_not_free_devices_under_running_pods(
    cluster: Cluster, source: str
) -> None:
    await cluster.template()
    await cluster.claim("c")
    await cluster.group(claim=source)
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.running("p")
    name = (
        "c"
        if source == "c"
        else (await cluster.client.get(Pod, "p", "ns")).status.resourceClaimStatuses[0].resourceClaimName
    )
    assert name is not None
    await cluster.client.delete(PodGroup, "g", "ns")
    await cluster.client.patch(PodGroup, "g", {"metadata": {"finalizers": None}}, "ns")
    await gone(cluster.client, PodGroup, "g", "ns")
    await quiet(0.3)
    assert [r.name for r in (await cluster.read(name)).status.reservedFor] == ["g"]
    await cluster.delete("p")
    if source == "c":
        await cluster.free()
    else:
        await gone(cluster.client, ResourceClaim, name, "ns")


async def test_a_group_that_is_made_again_gets_a_claim_of_its_own(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.pod("old", "g", resource="g:claim")
    await cluster.running("old")
    first = await cluster.the_claim()
    await cluster.client.delete(PodGroup, "g", "ns")
    await cluster.client.patch(PodGroup, "g", {"metadata": {"finalizers": None}}, "ns")
    await gone(cluster.client, PodGroup, "g", "ns")
    await cluster.group(claim="t:t")
    await cluster.pod("new", "g", resource="g:claim")
    await cluster.running("old", "new")
    second = (await cluster.client.get(Pod, "new", "ns")).status.resourceClaimStatuses[0].resourceClaimName
    assert second != first.metadata.name
    await cluster.delete("old")
    await gone(cluster.client, ResourceClaim, first.metadata.name, "ns")
    assert (await cluster.read(second or "")).status.allocation is not None


async def test_a_pod_that_asks_for_what_its_group_does_not_have_is_told(cluster: Cluster) -> None:
    await cluster.template()
    await cluster.group("g", claim="t:t")
    await cluster.pod("p", "g", x="g:other")
    await cluster.waits("p", say(ClaimCode.GROUP_LACKS_CLAIM, group="g", subject="other"))


async def conditions(cluster: Cluster, name: str) -> list[tuple[str, str, str]]:
    group = await cluster.client.get(PodGroup, name, "ns")
    return sorted((c.type, c.status, c.reason) for c in group.status.conditions)


async def test_a_gang_waits_for_its_pods_and_says_when_they_have_nodes(cluster: Cluster) -> None:
    tree = {
        "metadata": {"name": "gang"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "workloadRef": {"workloadName": "w", "templateName": "t"},
        },
    }
    await cluster.client.create(PodGroup, tree, namespace="ns")
    await cluster.pod("one", "gang")
    await cluster.waits("one", say(GroupCode.BELOW_MIN_COUNT))

    async def told(*expected: tuple[str, str, str]) -> bool:
        return await conditions(cluster, "gang") == [*expected]

    await eventually(lambda: told(("PodGroupInitiallyScheduled", "False", "Unschedulable")))
    await cluster.pod("two", "gang")
    await cluster.running("one", "two")
    await eventually(lambda: told(("PodGroupInitiallyScheduled", "True", "Scheduled")))


async def test_a_pod_waits_for_its_group(cluster: Cluster) -> None:
    await cluster.pod("early", "later")
    await cluster.waits("early", say(GroupCode.GROUP_UNKNOWN, group="later"))
    await cluster.group("later")
    await cluster.running("early")


async def test_a_group_says_why_its_pods_have_no_node_and_that_they_had_one(cluster: Cluster) -> None:
    await cluster.group("g")
    await cluster.pod("p", "g", claim="missing")

    async def told(status: str, reason: str) -> bool:
        return await conditions(cluster, "g") == [("PodGroupInitiallyScheduled", status, reason)]

    await eventually(lambda: told("False", "Unschedulable"))
    (condition,) = (await cluster.client.get(PodGroup, "g", "ns")).status.conditions
    assert say(ClaimCode.NOT_FOUND, claim="missing") in condition.message
    await cluster.pod("q", "g")
    await eventually(lambda: told("True", "Scheduled"))
    await cluster.delete("p", "q")
    await cluster.pod("r", "g", claim="missing")
    await cluster.waits("r", words_of(ClaimCode.NOT_FOUND))
    assert await told("True", "Scheduled")


@pytest.mark.parametrize("count", [0, -1])
async def test_a_gang_needs_a_positive_size(idle: Cluster, count: int) -> None:
    tree = {"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"gang": {"minCount": count}}}}
    with pytest.raises(Invalid, match="minCount"):
        await idle.client.create(PodGroup, tree, namespace="ns")


# What the API takes


async def test_exactly_one_source_is_allowed_in_a_pod_entry(idle: Cluster) -> None:
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "schedulingGroup": {"podGroupName": "g"},
        "resourceClaims": [{"name": "x", "resourceClaimName": "c", "podGroupResourceClaim": "claim"}],
    }
    with pytest.raises(Invalid, match=r"spec\.resourceClaims\[0\]"):
        await idle.client.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, namespace="ns")


async def test_the_claims_of_a_group_are_immutable(idle: Cluster) -> None:
    await idle.group(claim="t:t")
    patch = {"spec": {"resourceClaims": [{"name": "other", "resourceClaimName": "c"}]}}
    with pytest.raises((Invalid, Forbidden, Conflict), match="resourceClaims"):
        await idle.client.patch(PodGroup, "g", patch, "ns")


async def test_a_group_of_the_older_version_may_have_more_claims_than_today(idle: Cluster) -> None:
    for part in ("controllers", "scheduler", "nodes"):
        await idle.start(part)
    await idle.template()
    entries = [{"name": f"e{n}", "resourceClaimTemplateName": "t"} for n in range(6)]
    tree = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"resourceClaims": entries},
    }
    await created_over_http(idle, "/apis/scheduling.k8s.io/v1alpha1/namespaces/ns/podgroups", tree)

    async def recorded() -> bool:
        return len((await idle.client.get(PodGroup, "g", "ns")).status.resourceClaimStatuses) == len(entries)

    await eventually(recorded)
    await idle.client.delete(PodGroup, "g", "ns")
    await idle.has(0)


async def test_a_group_of_the_older_version_has_its_templates_policy_wherever_its_namespace_is_said(
    idle: Cluster,
) -> None:
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 3}}}
    workload = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}}
    await idle.client.create(Workload, workload, namespace="ns")
    tree = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "workers"}},
    }
    await created_over_http(idle, "/apis/scheduling.k8s.io/v1alpha1/namespaces/ns/podgroups", tree)
    gang = (await idle.client.get(PodGroup, "g", "ns")).spec.schedulingPolicy.gang
    assert gang is not None
    assert gang.minCount == 3


async def test_a_group_of_v1alpha3_is_a_group_like_any_other(cluster: Cluster) -> None:
    await cluster.template()
    tree = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "workloadRef": {"workloadName": "w", "templateName": "workers"},
            "resourceClaims": [{"name": "claim", "resourceClaimTemplateName": "t"}],
        },
    }
    await created_over_http(cluster, "/apis/scheduling.k8s.io/v1alpha3/namespaces/ns/podgroups", tree)
    await cluster.pod("p", "g", resource="g:claim")
    await cluster.pod("q", "g", resource="g:claim")
    await cluster.running("p", "q")
    group = await cluster.client.get(PodGroup, "g", "ns")
    assert group.apiVersion == "scheduling.k8s.io/v1beta1"
    assert group.spec.schedulingPolicy.gang is not None
    assert group.spec.schedulingPolicy.gang.minCount == 2
    assert [status.name for status in group.status.resourceClaimStatuses] == ["claim"]


async def created_over_http(cluster: Cluster, path: str, tree: dict[str, Any]) -> None:
    """Create an object in a version that is not the stored one."""
    async with listening(cluster.server) as address, aiohttp.ClientSession() as session:
        answer = await session.post(address + path, json=tree)
        assert answer.status == 201, await answer.text()


async def test_a_group_that_comes_later_lets_its_pods_be_scheduled(cluster: Cluster) -> None:
    await cluster.claim("c")
    for name in ("a", "b"):
        await cluster.pod(name, "g", shared="g:ours")
        await cluster.waits(name, "g")
    await cluster.group("g", ours="c")
    for name in ("a", "b"):
        await cluster.pod_is(name, lambda pod: bool(pod.spec.nodeName))
    await cluster.reserved("g")
