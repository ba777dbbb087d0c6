"""From template to the end of the pod: claims, reservations, phases and events on simulated nodes."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.podclaims import CLAIM_FINALIZER, POD_CLAIM_ANNOTATION
from dray.api.reasons import wording
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.nodes import NodeCode
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.node.played import EXIT_CODE, SECONDS
from dray.sim.hardware import DRIVER
from tests.e2e.audit import devices_of
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, Cluster, cluster
from tests.e2e.objects import claim, on_node, pod, request, template
from tests.saying import refused, words_of


async def allocated(c: Cluster) -> int:
    return sum(bool(one.status.allocation) for one in await c.claims())


async def freed(c: Cluster, name: str) -> None:
    """Wait until a claim is neither reserved nor allocated."""

    async def look() -> bool:
        status = (await c.claim(name)).status
        return not status.reservedFor and status.allocation is None

    await c.eventually(look)


async def test_a_template_becomes_a_claim_that_belongs_to_the_pod() -> None:
    async with cluster() as c:
        made = template("t")
        made["spec"]["metadata"] = {"labels": {"l": "1"}, "annotations": {"a": "2"}}
        await c.create(ResourceClaimTemplate, made)
        await c.create(Pod, pod("p", templates=["t"]))
        runs = await c.runs("p")
        [one] = await c.claims()
        assert [(s.name, s.resourceClaimName) for s in runs.status.resourceClaimStatuses] == [("t0", one.metadata.name)]
        assert one.metadata.name.startswith("p-t0-")
        assert one.metadata.labels == {"l": "1"}
        assert one.metadata.annotations == {"a": "2", POD_CLAIM_ANNOTATION: "t0"}
        [owner] = one.metadata.ownerReferences
        assert (owner.kind, owner.uid, owner.controller, owner.blockOwnerDeletion) == (
            "Pod",
            runs.metadata.uid,
            True,
            True,
        )
        assert one.metadata.finalizers == (CLAIM_FINALIZER,)
        assert [(r.resource, r.name, r.uid) for r in one.status.reservedFor] == [("pods", "p", runs.metadata.uid)]
        assert await c.told("p", "Scheduled") == wording.bound("default", "p", runs.spec.nodeName)
        await c.delete(Pod, "p")
        await c.gone(Pod, "p")
        await c.gone(ResourceClaim, one.metadata.name)


async def test_two_pods_of_the_same_name_one_after_the_other_get_different_claims() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        names = set()
        for _ in range(3):
            await c.create(Pod, pod("p", templates=["t"]))
            await c.runs("p")
            names |= {s.resourceClaimName for s in (await c.pod("p")).status.resourceClaimStatuses}
            await c.delete(Pod, "p", grace=0)
            await c.gone(Pod, "p")
        assert len(names) == 3


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
async def test_a_pod_that_is_done_gives_its_devices_back_while_it_still_exists(code: str, phase: str) -> None:
    async with cluster(nodes=1, devices=2) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.create(ResourceClaim, claim("kept"))
        done = {SECONDS: "0.05", EXIT_CODE: code}
        await c.create(Pod, pod("p", claims=["kept"], templates=["t"], annotations=done, restartPolicy="Never"))
        ended = await c.runs("p", phase=phase)
        assert [s.state.terminated.exitCode for s in ended.status.containerStatuses if s.state.terminated] == [
            int(code)
        ]
        await freed(c, "kept")

        async def only_kept() -> bool:
            return [one.metadata.name for one in await c.claims()] == ["kept"]

        await c.eventually(only_kept)
        await c.create(ResourceClaimTemplate, template("both", request(count=2)))
        await c.create(Pod, pod("next", templates=["both"]))
        await c.runs("next")
        assert (await c.pod("p")).status.phase == phase


async def test_a_pod_that_restarts_its_containers_keeps_its_devices() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.create(Pod, pod("p", templates=["t"], annotations={SECONDS: "0.05", EXIT_CODE: "1"}))
        await c.runs("p")
        before = [devices_of(one) for one in await c.claims()]

        async def restarted() -> bool:
            return any(s.restartCount for s in (await c.pod("p")).status.containerStatuses)

        await c.eventually(restarted)
        assert (await c.pod("p")).status.phase == "Running"
        assert [devices_of(one) for one in await c.claims()] == before


async def test_a_force_deleted_pod_and_one_that_never_ran_leave_no_reservation() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await c.runs("p")
        await c.stop(NODES)  # nobody confirms that the containers are gone
        await c.delete(Pod, "p", grace=0)
        await freed(c, "gpu")
        await c.create(ResourceClaimTemplate, template("t", request(count=5)))
        await c.create(Pod, pod("never", templates=["t"]))
        await c.waits("never")
        await c.delete(Pod, "never")
        await c.gone(Pod, "never")

        async def only_one() -> bool:
            return [one.metadata.name for one in await c.claims()] == ["gpu"]

        await c.eventually(only_one)


async def test_a_claim_that_is_deleted_in_use_stays_until_its_last_pod_is_gone() -> None:
    async with cluster() as c:
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]), pod("q", claims=["gpu"]))
        await c.runs("p", "q")
        await c.delete(ResourceClaim, "gpu")
        await c.delete(Pod, "p")
        await c.gone(Pod, "p")
        await c.quiet()
        assert (await c.claim("gpu")).status.allocation is not None
        await c.create(Pod, pod("late", claims=["gpu"]))
        assert wording.say(ClaimCode.DELETING, claim="gpu") in await c.waits("late")
        await c.delete(Pod, "q")
        await c.gone(ResourceClaim, "gpu")


# Pods that did not come through the scheduler


async def test_a_pod_created_on_a_node_is_not_started_before_its_claims_are_allocated_for_it() -> None:
    async with cluster() as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", templates=["t"], nodeName="node-0"))
        text = await c.told("p", "FailedPrepareDynamicResources", words_of(ClaimCode.NOT_ALLOCATED))
        assert text.startswith("Failed to prepare dynamic resources: ")
        assert (await c.pod("p")).status.phase == "Pending"
        assert await allocated(c) == 0
        await c.delete(Pod, "p")
        await c.gone(Pod, "p")

        # With a claim that others have allocated the controller adds the reservation.
        await c.create(Pod, pod("first", claims=["gpu"], **on_node("node-1")))
        await c.runs("first")
        await c.create(Pod, pod("placed", claims=["gpu"], nodeName="node-1"))
        await c.runs("placed")
        assert {r.name for r in (await c.claim("gpu")).status.reservedFor} == {"first", "placed"}


async def test_a_foreign_claim_of_the_generated_name_is_refused_by_scheduler_and_node() -> None:
    async with cluster(parts=(NODES, SCHEDULER)) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.create(ResourceClaim, claim("stolen"))
        await c.create(Pod, pod("p", templates=["t"]), pod("q", templates=["t"], nodeName="node-0"))
        for name in ("p", "q"):
            status = {"resourceClaimStatuses": [{"name": "t0", "resourceClaimName": "stolen"}]}
            await c.client.patch(Pod, name, {"status": status}, "default", subresource="status")
        assert wording.say(ClaimCode.NOT_FOR_POD, claim="stolen", pod="p") in await c.waits("p")
        expected = wording.say(ClaimCode.NOT_FOR_POD, claim="stolen", pod="q")
        await c.told("q", "FailedPrepareDynamicResources", expected)
        assert await allocated(c) == 0


# What goes away with something else


async def test_a_namespace_takes_everything_along() -> None:
    async with cluster(devices=3) as c:
        await c.create(Namespace, {"metadata": {"name": "team"}})
        await c.create(ResourceClaimTemplate, template("t", namespace="team"))
        await c.create(ResourceClaim, claim("gpu", namespace="team"))
        await c.create(Pod, *(pod(f"p{i}", claims=["gpu"], templates=["t"], namespace="team") for i in range(2)))
        await c.runs("p0", "p1", namespace="team")
        await c.delete(Namespace, "team", "")
        await c.gone(Namespace, "team", "")
        for type_ in (Pod, ResourceClaim, ResourceClaimTemplate):
            assert not (await c.client.list(type_)).items
        await c.create(ResourceClaimTemplate, template("all", request(count=3)))
        await c.create(Pod, *(pod(f"q{i}", templates=["all"]) for i in range(3)))
        await c.runs("q0", "q1", "q2")


async def test_a_removed_node_takes_its_slices_along_and_its_devices_are_not_given_away() -> None:
    async with cluster(nodes=2, devices=1) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.client.delete(Node, "node-1", propagation="Background")
        await c.gone(ResourceSlice, f"node-1-{DRIVER}-0", "")
        await c.create(Pod, pod("p", templates=["t"]), pod("q", templates=["t"]))
        assert (await c.runs("p")).spec.nodeName == "node-0"
        assert refused(NodeCode.CANNOT_ALLOCATE) in await c.waits("q")


async def test_an_out_of_service_node_gives_its_pods_and_their_devices_up() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await c.runs("p")
        await c.stop(NODES)
        ready = {"conditions": [{"type": "Ready", "status": "False"}]}
        await c.client.patch(Node, "node-0", {"status": ready}, subresource="status")
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await c.client.patch(Node, "node-0", {"spec": {"taints": [taint]}})
        await c.gone(Pod, "p")
        await freed(c, "gpu")


# Restarts


@pytest.mark.parametrize("part", [CONTROLLERS, SCHEDULER, NODES])
async def test_a_part_that_was_away_catches_up(part: str) -> None:
    """Half of the pods is created, and another half deleted, while a part is away."""
    async with cluster(devices=4) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.create(Pod, *(pod(f"a{i}", templates=["t"]) for i in range(6)))
        await c.runs(*(f"a{i}" for i in range(6)))
        await c.stop(part)
        for i in range(3):
            await c.delete(Pod, f"a{i}", grace=0)
        await c.create(Pod, *(pod(f"b{i}", templates=["t"]) for i in range(9)))
        await asyncio.sleep(0.1)
        await c.start(part)
        await c.runs(*(f"b{i}" for i in range(9)))

        async def settled() -> bool:
            return len(await c.claims()) == 12 == await allocated(c)

        await c.eventually(settled)
