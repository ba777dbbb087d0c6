"""Feature gates that are turned off and on again, and parts that disagree about them, with shared claims present.

Each test is a row of the tables in docs/workload-claims.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from dray.api.errors import Invalid
from dray.api.gates import FeatureGates
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.wording import say
from dray.api.types.core import ConfigMap, Namespace, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from tests.controllers.conftest import gone, quiet
from tests.saying import words_of
from tests.workloads.cluster import ALL, CONTROLLERS, GROUPS, NONE, PARTS, WORKLOADS, Cluster, without


@dataclass
class Scene:
    """A claim that is shared through a group or a workload, and what the parts do about it."""

    cluster: Cluster
    gate: str
    claim: str = "c"

    @property
    def consumer(self) -> str:
        return "g" if self.gate == GROUPS else "w"

    @property
    def off(self) -> FeatureGates:
        return without(self.gate)

    async def prepare(self) -> None:
        cluster = self.cluster
        if self.gate == GROUPS:
            await cluster.template()
            await cluster.group(claim="t:t")
            await cluster.has(1)
            self.claim = (await cluster.the_claim()).metadata.name
        else:
            made = await cluster.client.create(ConfigMap, {"metadata": {"name": "w"}}, namespace="ns")
            await cluster.claim(reservedFor={"resource": "configmaps", "name": "w", "uid": made.metadata.uid})

    async def pod(self, name: str) -> None:
        if self.gate == GROUPS:
            await self.cluster.pod(name, "g", resource="g:claim")
        else:
            await self.cluster.pod(name, x="c")

    async def end(self) -> None:
        """The consumer as a whole is done."""
        if self.gate == GROUPS:
            await self.cluster.client.delete(PodGroup, "g", "ns")
        else:
            patch = {"status": {"reservedFor": None}}
            await self.cluster.client.patch(ResourceClaim, "c", patch, "ns", subresource="status")

    async def turn(self, *parts: str, on: bool) -> None:
        for part in parts:
            await self.cluster.restart(part, ALL if on else self.off)

    async def reserved(self, *consumers: str) -> ResourceClaim:
        return await self.cluster.reserved(*consumers, name=self.claim)

    async def freed(self) -> None:
        """Deallocated, and deleted where it was generated."""
        if self.gate == GROUPS:
            await gone(self.cluster.client, ResourceClaim, self.claim, "ns")
        else:
            await self.cluster.free()

    async def stays(self, *consumers: str) -> None:
        await quiet(0.2)
        claim = await self.cluster.read(self.claim)
        assert sorted(r.name for r in claim.status.reservedFor) == sorted(consumers)
        assert claim.status.allocation is not None

    async def phase(self, name: str) -> str:
        return (await self.cluster.client.get(Pod, name, "ns")).status.phase


@pytest.fixture(params=[GROUPS, WORKLOADS])
async def scene(request: pytest.FixtureRequest, cluster: Cluster) -> Scene:
    scene = Scene(cluster, request.param)
    await scene.prepare()
    return scene


# On, off, on again


async def test_with_the_gate_off_references_stay_and_on_again_the_claim_is_freed(scene: Scene) -> None:
    await scene.pod("p")
    await scene.cluster.running("p")
    await scene.turn(*PARTS, on=False)
    await scene.stays(scene.consumer)
    assert await scene.phase("p") == "Running"
    await scene.cluster.delete("p")
    await gone(scene.cluster.client, Pod, "p", "ns")
    await scene.stays(scene.consumer)
    await scene.turn(*PARTS, on=True)
    await scene.stays(scene.consumer)
    await scene.end()
    await scene.freed()


async def test_a_consumer_that_ends_while_the_gate_is_off_frees_nothing_until_it_is_on(scene: Scene) -> None:
    await scene.pod("p")
    await scene.cluster.running("p")
    await scene.turn(*PARTS, on=False)
    await scene.cluster.delete("p")
    await gone(scene.cluster.client, Pod, "p", "ns")
    await scene.end()
    await quiet(0.2)
    assert (await scene.cluster.read(scene.claim)).status.allocation is not None
    await scene.turn(*PARTS, on=True)
    await scene.freed()


async def test_a_mixed_list_ends_as_if_the_gate_had_been_on(scene: Scene) -> None:
    await scene.pod("p")
    await scene.cluster.running("p")
    await scene.cluster.stop("scheduler")
    await scene.pod("q")
    if scene.gate == GROUPS:
        await scene.cluster.pod_is("q", lambda pod: bool(pod.status.resourceClaimStatuses))
    await scene.turn(*PARTS, on=False)
    await scene.cluster.running("q")
    await scene.reserved(scene.consumer, "q")
    await scene.turn(*PARTS, on=True)
    await scene.pod("r")
    await scene.cluster.running("r")
    await scene.cluster.delete("q")
    await scene.reserved(scene.consumer)
    await scene.cluster.delete("p", "r")
    for name in ("p", "r"):
        await gone(scene.cluster.client, Pod, name, "ns")
    await scene.stays(scene.consumer)
    await scene.end()
    await scene.freed()


async def test_an_allocation_from_the_time_without_the_gate_ends_with_its_consumers(scene: Scene) -> None:
    await scene.cluster.stop("scheduler")
    await scene.pod("p")
    if scene.gate == GROUPS:
        await scene.cluster.pod_is("p", lambda pod: bool(pod.status.resourceClaimStatuses))
    await scene.turn(*PARTS, on=False)
    await scene.cluster.running("p")
    await scene.reserved("p")
    await scene.turn(*PARTS, on=True)
    if scene.gate == GROUPS:
        await scene.reserved("p", scene.consumer)
        await scene.cluster.delete("p")
        await scene.reserved(scene.consumer)
        await scene.end()
    else:  # the allocation is not open to any pod, and immutable
        await scene.stays("p")
        await scene.cluster.delete("p")
    await scene.freed()


async def test_the_last_consumer_of_any_kind_frees_a_mixed_list(scene: Scene) -> None:
    await scene.pod("p")
    await scene.cluster.running("p")
    await scene.turn("scheduler", on=False)
    await scene.pod("q")
    await scene.cluster.running("q")
    await scene.reserved(scene.consumer, "q")
    await scene.turn("scheduler", on=True)
    await scene.cluster.delete("p")
    await gone(scene.cluster.client, Pod, "p", "ns")
    if scene.gate == GROUPS:
        await scene.end()
        await scene.stays(scene.consumer, "q")
    else:
        kept = [{"resource": "pods", "name": "q", "uid": (await scene.cluster.client.get(Pod, "q", "ns")).metadata.uid}]
        patch: dict[str, Any] = {"status": {"reservedFor": kept}}
        await scene.cluster.client.patch(ResourceClaim, "c", patch, "ns", subresource="status")
        await scene.stays("q")
    await scene.cluster.delete("q")
    await scene.freed()


# One part off alone


async def test_a_server_without_the_gate_takes_no_new_fields_and_keeps_old_ones(scene: Scene) -> None:
    await scene.pod("p")
    await scene.cluster.running("p")
    await scene.turn("apiserver", on=False)
    cluster = scene.cluster
    if scene.gate == GROUPS:
        made = await cluster.group("late", claim="t:t")
        assert made.spec.resourceClaims == ()
        with pytest.raises(Invalid, match=r"spec\.resourceClaims\[0\]"):
            await scene.pod("q")
        group = await cluster.client.patch(PodGroup, "g", {"metadata": {"labels": {"a": "b"}}}, "ns")
        assert len(group.spec.resourceClaims) == 1
    else:
        reference = {"resource": "configmaps", "name": "w", "uid": "1"}
        assert (await cluster.claim("late", reservedFor=reference)).spec.reservedFor is None
        claim = await cluster.client.patch(ResourceClaim, "c", {"metadata": {"labels": {"a": "b"}}}, "ns")
        assert claim.spec.reservedFor is not None
        assert claim.status.allocation is not None
        assert claim.status.allocation.reservedForAnyPod
    await scene.stays(scene.consumer)
    await scene.cluster.delete("p")
    await gone(cluster.client, Pod, "p", "ns")
    await scene.end()
    await scene.freed()


async def test_a_scheduler_without_the_gate_adds_pods_beside_the_consumer(scene: Scene) -> None:
    await scene.pod("p")
    await scene.cluster.running("p")
    await scene.turn("scheduler", on=False)
    await scene.pod("q")
    await scene.cluster.running("q")
    await scene.reserved(scene.consumer, "q")
    await scene.turn("scheduler", on=True)
    await scene.pod("r")
    await scene.cluster.running("r")
    await scene.stays(scene.consumer, "q")


async def test_a_group_that_a_scheduler_without_the_gate_forgets_is_added_and_a_workload_is_not(scene: Scene) -> None:
    await scene.turn("scheduler", on=False)
    await scene.pod("p")
    await scene.cluster.running("p")
    if scene.gate == GROUPS:
        await scene.reserved("p", scene.consumer)
        return
    # An allocation is immutable, so it cannot be opened to any pod afterwards: pods are listed until it is freed.
    await scene.turn("scheduler", on=True)
    await scene.pod("q")
    await scene.cluster.running("q")
    claim = await scene.reserved("p", "q")
    assert claim.status.allocation is not None
    assert claim.status.allocation.reservedForAnyPod is None
    await scene.cluster.delete("p", "q")
    await scene.freed()


async def test_controllers_without_the_gate_keep_references(scene: Scene) -> None:
    await scene.pod("p")
    await scene.cluster.running("p")
    await scene.turn("controllers", on=False)
    await scene.pod("q")
    if scene.gate == GROUPS:
        await scene.cluster.waits("q", say(ClaimCode.NOT_CREATED, entry="resource"))
    else:
        await scene.cluster.running("q")
    await scene.stays(scene.consumer)
    await scene.cluster.delete("p", "q")
    for name in ("p", "q"):
        await gone(scene.cluster.client, Pod, name, "ns")
    await scene.end()
    await quiet(0.2)
    assert (await scene.cluster.read(scene.claim)).status.allocation is not None
    await scene.turn("controllers", on=True)
    await scene.freed()


async def test_pods_that_waited_for_controllers_with_the_gate_run_afterwards(scene: Scene) -> None:
    await scene.turn("controllers", on=False)
    await scene.pod("p")
    await quiet()
    await scene.turn("controllers", on=True)
    await scene.cluster.running("p")
    await scene.reserved(scene.consumer)


async def test_a_node_without_the_gate_refuses_new_pods_and_keeps_running_ones(scene: Scene) -> None:
    await scene.pod("p")
    await scene.cluster.running("p")
    await scene.turn("nodes", on=False)
    await scene.pod("q")
    await scene.cluster.scheduled("q")
    await scene.cluster.event("FailedPrepareDynamicResources", words_of(ClaimCode.NOT_RESERVED), about="q")
    assert await scene.phase("q") == "Pending"
    assert await scene.phase("p") == "Running"
    await scene.turn("nodes", on=True)
    await scene.cluster.running("q")
    assert await scene.phase("p") == "Running"


# Downgrade by hand, as the documentation says


async def test_a_claim_whose_list_was_changed_to_pods_is_freed_without_the_gate(scene: Scene) -> None:
    await scene.pod("p")
    await scene.cluster.running("p")
    await scene.turn(*PARTS, on=False)
    pod = await scene.cluster.client.get(Pod, "p", "ns")
    listed = [{"resource": "pods", "name": "p", "uid": pod.metadata.uid}]
    await scene.cluster.client.patch(
        ResourceClaim, scene.claim, {"status": {"reservedFor": listed}}, "ns", subresource="status"
    )
    await scene.stays("p")
    await scene.cluster.delete("p")
    await scene.cluster.free(scene.claim)


# Pods whose entry is the group's because it is equal, as in v1.37: without the gate, it is their own


async def equal_entries(cluster: Cluster) -> str:
    """A group with a claim, and its name."""
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.has(1)
    return (await cluster.the_claim()).metadata.name


async def recorded(cluster: Cluster, pod: str) -> str | None:
    (status,) = (await cluster.client.get(Pod, pod, "ns")).status.resourceClaimStatuses
    return status.resourceClaimName


async def test_without_the_gate_a_pod_keeps_the_claim_of_its_group(cluster: Cluster) -> None:
    shared = await equal_entries(cluster)
    await cluster.pod("p", "g", seed=False, claim="t:t")
    await cluster.running("p")
    for part in PARTS:
        await cluster.restart(part, without(GROUPS))
    await quiet(0.3)
    assert [c.metadata.name for c in await cluster.claims()] == [shared]
    assert await recorded(cluster, "p") == shared


@pytest.mark.parametrize("started", [True, False])
async def test_a_claim_made_without_the_gate_stays_its_pods_own(cluster: Cluster, started: bool) -> None:
    shared = await equal_entries(cluster)
    for part in PARTS:
        await cluster.restart(part, without(GROUPS))
    if not started:
        await cluster.stop("nodes")
    await cluster.pod("p", "g", seed=False, claim="t:t")
    await cluster.scheduled("p")
    if started:
        await cluster.running("p")
    own = await recorded(cluster, "p")
    assert own is not None
    assert own != shared
    for part in PARTS:
        await cluster.restart(part, ALL)
    await cluster.running("p")
    await cluster.pod("q", "g", seed=False, claim="t:t")
    await cluster.running("q")
    await cluster.reserved("g", name=shared)
    await cluster.reserved("p", name=own)
    await cluster.delete("p")
    await gone(cluster.client, ResourceClaim, own, "ns")


async def test_a_pod_that_waits_with_a_claim_of_its_own_gets_that_of_its_group(cluster: Cluster) -> None:
    shared = await equal_entries(cluster)
    await cluster.stop("scheduler")
    for part in ("apiserver", "controllers"):
        await cluster.restart(part, without(GROUPS))
    await cluster.pod("p", "g", seed=False, claim="t:t")
    await cluster.has(2)
    for part in PARTS:
        await cluster.restart(part, ALL)
    await cluster.running("p")
    assert await recorded(cluster, "p") == shared


# Kinds that are not served


async def test_a_namespace_with_a_group_can_be_deleted_while_groups_are_not_served() -> None:
    cluster = Cluster(controllers=f"{CONTROLLERS},namespace")
    await cluster.open()
    await cluster.template()
    await cluster.group(claim="t:t")
    await cluster.has(1)
    for part in PARTS:
        await cluster.restart(part, NONE)
    await cluster.client.delete(Namespace, "ns")
    await gone(cluster.client, Namespace, "ns")
    await gone(cluster.client, PodGroup, "g", "ns")
    await cluster.close()


@pytest.mark.parametrize("gate", [GROUPS, WORKLOADS])
async def test_a_namespace_goes_with_a_claim_in_use_whose_gate_is_off(gate: str) -> None:
    cluster = Cluster(controllers=f"{CONTROLLERS},namespace")
    await cluster.open()
    scene = Scene(cluster, gate)
    await scene.prepare()
    await scene.pod("p")
    await cluster.running("p")
    for part in PARTS:
        await cluster.restart(part, NONE)
    await cluster.client.delete(Namespace, "ns")
    await gone(cluster.client, Namespace, "ns")
    await cluster.close()
