"""A gate that one part has and another has not, and what happens when it comes back."""

from __future__ import annotations

from pathlib import Path

from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.devices import InputCode
from dray.api.reasons.wording import say
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, Cluster, cluster
from tests.e2e.objects import alternatives, claim, pod, request, template
from tests.saying import words_of

OFF = "DynamicResourceAllocation=false"
NO_LISTS = "DRAPrioritizedList=false"


async def test_a_scheduler_without_devices_places_pods_that_the_node_then_refuses() -> None:
    async with cluster() as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.restart(SCHEDULER, OFF)
        await c.create(Pod, pod("p", templates=["t"]), pod("plain"))
        await c.runs("plain")
        await c.told("p", "FailedPrepareDynamicResources", words_of(ClaimCode.NOT_ALLOCATED))
        assert (await c.pod("p")).spec.nodeName
        await c.restart(SCHEDULER)
        await c.create(Pod, pod("q", templates=["t"]))
        await c.runs("q")
        assert (await c.pod("p")).status.phase == "Pending"  # must be deleted by hand, as KEP-4381 says
        await c.delete(Pod, "p")
        await c.gone(Pod, "p")


async def test_nodes_without_devices_run_pods_that_nobody_allocated_devices_for() -> None:
    async with cluster() as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.restart(SCHEDULER, OFF)
        await c.restart(NODES, OFF)
        await c.create(Pod, pod("p", templates=["t"]))
        await c.runs("p")


async def test_controllers_without_devices_make_no_claims_and_make_them_later() -> None:
    async with cluster() as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.create(ResourceClaim, claim("named"))
        await c.restart(CONTROLLERS, OFF)
        await c.create(Pod, pod("p", templates=["t"]), pod("q", claims=["named"]))
        await c.runs("q")
        assert say(ClaimCode.NOT_CREATED, entry="t0") in await c.waits("p")
        await c.delete(Pod, "q")
        await c.gone(Pod, "q")
        await c.restart(CONTROLLERS)
        await c.runs("p")

        async def released() -> bool:
            return (await c.claim("named")).status.allocation is None

        await c.eventually(released)


async def test_a_scheduler_without_lists_says_so_and_one_with_them_goes_on() -> None:
    async with cluster() as c:
        await c.create(ResourceClaimTemplate, template("t", alternatives(request("a"), request("b"))))
        await c.restart(SCHEDULER, NO_LISTS)
        await c.create(Pod, pod("p", templates=["t"]))
        assert words_of(InputCode.SUBREQUESTS_OFF) in await c.waits("p")
        await c.restart(SCHEDULER)
        await c.runs("p")


async def test_pods_of_templates_with_lists_recover_unaided_when_the_gate_is_on_again(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'state.db'}"
    async with cluster(store=store) as c:
        await c.create(ResourceClaimTemplate, template("t", alternatives(request("a", count=9), request("b"))))
        await c.create(Pod, pod("old", templates=["t"]))
        await c.runs("old")
    async with cluster(store=store, gates=NO_LISTS) as c:
        await c.create(Pod, pod("p", templates=["t"]))
        assert "PodResourceClaim t0: create resource claim:" in await c.told("p", "FailedResourceClaimCreation")
        await c.waits("p", say(ClaimCode.NOT_CREATED, entry="t0"))
        assert await requests_of(c, "old") == ["r/b"]
        assert (await c.pod("old")).status.phase == "Running"
    async with cluster(store=store) as c:
        await c.runs("p")
        assert await requests_of(c, "p") == ["r/b"]


async def requests_of(c: Cluster, name: str) -> list[str]:
    """Which requests of a pod's generated claim got devices."""
    [status] = (await c.pod(name)).status.resourceClaimStatuses
    allocation = (await c.claim(status.resourceClaimName or "")).status.allocation
    return [result.request for result in allocation.devices.results] if allocation else []
