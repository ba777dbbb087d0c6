"""What a decision writes, and what is given back when it fails; on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.allocator import Allocated
from dray.api.allocations import DeviceId, Taken
from dray.api.claim_access import ClaimUse, PodClaims
from dray.api.errors import Conflict, NotFound, ServiceUnavailable
from dray.api.gates import FeatureGates
from dray.api.podclaims import CLAIM_FINALIZER, Sharing
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Client, InProcess
from dray.core.attempt import Promise
from dray.scheduler.binding import Binder, Overtaken
from tests import objects

RESULT: dict[str, Any] = {"devices": {"results": [{"request": "r", "driver": "d.io", "pool": "p", "device": "x"}]}}
WORKLOAD = {"resource": "jobs", "apiGroup": "batch", "name": "j", "uid": "1"}


@pytest.fixture(params=[True, False], ids=["gate", "server without gate"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    gates = FeatureGates.parse(f"DRAReservedForWorkloads={str(request.param).lower()}")
    settings = ServerSettings(authenticate=False, gates=gates, disabled_plugins=("ServiceAccount", "NamespaceDefaults"))
    running = await Running.open(settings)
    client = InProcess(running.api, ADMIN)
    await client.create(Namespace, {"metadata": {"name": "ns"}})
    await client.create(Node, {"metadata": {"name": "n"}})
    yield client
    await running.close()


async def create_pod(client: Client, name: str) -> Pod:
    return await client.create(Pod, objects.pod(name), namespace="ns")


async def create_claim(client: Client, name: str = "c", **spec: Any) -> ResourceClaim:
    return await client.create(ResourceClaim, objects.claim(name, **spec), namespace="ns")


def promise(pod: Pod, *claims: ResourceClaim, node: str = "n") -> Promise:
    pending = [c for c in claims if c.status.allocation is None]
    allocated = [c for c in claims if c.status.allocation is not None]
    state = PodClaims(pod, None, [ClaimUse(c, by_group=False) for c in claims], pending, allocated)
    devices = tuple(Taken((DeviceId("d.io", "p", "x"),)) for _ in pending)
    outcome = Allocated(tuple(RESULT for _ in pending), devices, ()) if pending else None
    return Promise(state, node, outcome, pending)


async def consumers(client: Client, name: str = "c") -> list[str]:
    return [r.name for r in (await client.get(ResourceClaim, name, "ns")).status.reservedFor]


async def test_finalizer_allocation_reservation_and_node_are_written(client: Client) -> None:
    await Binder(client).bind(promise(await create_pod(client, "p"), await create_claim(client)))
    written = await client.get(ResourceClaim, "c", "ns")
    assert written.metadata.finalizers == (CLAIM_FINALIZER,)
    assert written.status.allocation is not None
    assert await consumers(client) == ["p"]
    assert (await client.get(Pod, "p", "ns")).spec.nodeName == "n"


async def test_a_pod_that_cannot_be_bound_gives_back_its_own_reservation_and_nothing_else(client: Client) -> None:
    await Binder(client).bind(promise(await create_pod(client, "first"), await create_claim(client)))
    second = await create_pod(client, "second")
    shared = await client.get(ResourceClaim, "c", "ns")
    await client.delete(Pod, "second", "ns", grace=0)
    with pytest.raises(NotFound):
        await Binder(client).bind(promise(second, shared))
    assert await consumers(client) == ["first"]
    assert (await client.get(ResourceClaim, "c", "ns")).status.allocation is not None


async def test_a_pod_that_has_its_node_nevertheless_keeps_its_reservation(client: Client) -> None:
    seen = await create_pod(client, "p")
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await client.create(Pod, target, namespace="ns", name="p", subresource="binding")
    with pytest.raises(Conflict):
        await Binder(client).bind(promise(seen, await create_claim(client)))
    assert await consumers(client) == ["p"]


async def test_a_pod_that_may_have_its_node_keeps_its_reservation(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unanswered(*_: Any, **__: Any) -> Any:
        raise ServiceUnavailable("no connection")

    seen, free = await create_pod(client, "p"), await create_claim(client)
    with monkeypatch.context() as cut:
        cut.setattr(Binder, "_assign", unanswered)
        cut.setattr(client, "get", unanswered)
        with pytest.raises(ServiceUnavailable):
            await Binder(client).bind(promise(seen, free))
    assert await consumers(client) == ["p"]


async def test_a_new_pod_of_the_same_name_is_not_bound_in_place_of_a_deleted_one(client: Client) -> None:
    seen = await create_pod(client, "p")
    await client.delete(Pod, "p", "ns", grace=0)
    await create_pod(client, "p")
    with pytest.raises(Conflict):
        await Binder(client).bind(promise(seen, await create_claim(client)))
    assert not (await client.get(Pod, "p", "ns")).spec.nodeName
    assert await consumers(client) == []


async def test_the_node_of_a_new_pod_of_the_same_name_keeps_no_reservation_of_a_deleted_one(client: Client) -> None:
    seen = await create_pod(client, "p")
    await client.delete(Pod, "p", "ns", grace=0)
    await Binder(client).bind(promise(await create_pod(client, "p")))
    with pytest.raises(Conflict):
        await Binder(client).bind(promise(seen, await create_claim(client)))
    assert await consumers(client) == []


async def test_a_discarded_claim_leaves_the_one_that_another_scheduler_named_in_the_pod(client: Client) -> None:
    asking = objects.pod("p", needs={"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}})
    mine = await create_claim(client, "mine")
    await client.create(Pod, asking, namespace="ns")
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    named = {"resourceClaimName": "theirs", "requestMappings": [mapping]}
    status = {"status": {"extendedResourceClaimStatus": named}}
    await Binder(client).discard(mine, await client.patch(Pod, "p", status, "ns", subresource="status"))
    known = (await client.get(Pod, "p", "ns")).status.extendedResourceClaimStatus
    assert known is not None
    assert known.resourceClaimName == "theirs"
    assert not [c for c in (await client.list(ResourceClaim, "ns")).items if c.metadata.name == "mine"]


async def test_a_conflict_is_read_again_while_the_decision_stands(client: Client) -> None:
    seen = await create_claim(client)
    await client.patch(ResourceClaim, "c", {"metadata": {"labels": {"a": "b"}}}, "ns")
    await Binder(client).bind(promise(await create_pod(client, "p"), seen))
    assert await consumers(client) == ["p"]


async def test_a_claim_that_became_full_ends_the_decision(client: Client) -> None:
    await Binder(client).bind(promise(await create_pod(client, "first"), await create_claim(client)))
    seen = await client.get(ResourceClaim, "c", "ns")
    others = [{"resource": "pods", "name": f"o{number}", "uid": f"o{number}"} for number in range(255)]
    patch = {"status": {"reservedFor": [{"resource": "pods", "name": "first", "uid": "1"}, *others]}}
    await client.patch(ResourceClaim, "c", patch, "ns", subresource="status")
    with pytest.raises(Overtaken, match="no more consumers"):
        await Binder(client).bind(promise(await create_pod(client, "last"), seen))
    assert len(await consumers(client)) == 256
    assert not (await client.get(Pod, "last", "ns")).spec.nodeName


async def test_a_claim_that_another_scheduler_allocated_ends_the_decision(client: Client) -> None:
    seen = await create_claim(client)
    await Binder(client).bind(promise(await create_pod(client, "faster"), seen))
    with pytest.raises(Overtaken, match="allocated by another scheduler"):
        await Binder(client).bind(promise(await create_pod(client, "p"), seen))
    assert await consumers(client) == ["faster"]
    assert not (await client.get(Pod, "p", "ns")).spec.nodeName


async def test_a_claim_that_was_replaced_ends_the_decision(client: Client) -> None:
    seen = await create_claim(client)
    await client.delete(ResourceClaim, "c", "ns")
    await create_claim(client)
    with pytest.raises(Overtaken, match="deleted and created again"):
        await Binder(client).bind(promise(await create_pod(client, "p"), seen))


async def test_a_claim_for_a_workload_is_reserved_for_it_or_where_the_server_knows_no_workloads_for_the_pod(
    client: Client,
) -> None:
    made = await create_claim(client, reserved_for=WORKLOAD)
    await Binder(client, Sharing()).bind(promise(await create_pod(client, "p"), made))
    assert await consumers(client) == (["j"] if made.spec.reservedFor else ["p"])


async def test_a_claim_that_its_workload_gave_back_is_reserved_for_it_again(client: Client) -> None:
    made = await create_claim(client, reserved_for=WORKLOAD)
    await Binder(client, Sharing()).bind(promise(await create_pod(client, "first"), made))
    await client.patch(ResourceClaim, "c", {"status": {"reservedFor": None}}, "ns", subresource="status")
    left = await client.get(ResourceClaim, "c", "ns")
    await Binder(client, Sharing()).bind(promise(await create_pod(client, "p"), left))
    assert await consumers(client) == (["j"] if made.spec.reservedFor else ["p"])


async def test_a_claim_that_lists_nobody_and_is_deallocated_meanwhile_ends_the_decision(client: Client) -> None:
    await Binder(client, Sharing()).bind(
        promise(await create_pod(client, "first"), await create_claim(client, reserved_for=WORKLOAD))
    )
    await client.patch(ResourceClaim, "c", {"status": {"reservedFor": None}}, "ns", subresource="status")
    left = await client.get(ResourceClaim, "c", "ns")
    await Binder(client).deallocate(left)
    with pytest.raises(Overtaken, match="allocated differently now"):
        await Binder(client, Sharing()).bind(promise(await create_pod(client, "p"), left))
    assert not (await client.get(Pod, "p", "ns")).spec.nodeName


async def test_a_scheduler_without_the_gate_reserves_for_the_pod(client: Client) -> None:
    made = await create_claim(client, reserved_for=WORKLOAD)
    await Binder(client, Sharing(workloads=False)).bind(promise(await create_pod(client, "p"), made))
    assert await consumers(client) == ["p"]


async def test_deallocating_clears_reservations_too(client: Client) -> None:
    await Binder(client).bind(promise(await create_pod(client, "p"), await create_claim(client)))
    await Binder(client).deallocate(await client.get(ResourceClaim, "c", "ns"))
    cleared = (await client.get(ResourceClaim, "c", "ns")).status
    assert (cleared.allocation, cleared.reservedFor) == (None, ())
