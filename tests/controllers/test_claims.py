"""The claim controller on a real server: one claim an entry, and the end of claims that nobody uses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.api.errors import Invalid
from dray.api.podclaims import CLAIM_FINALIZER
from dray.api.types.core import Event, Namespace, Node, Pod, ResourceQuota
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from dray.client import Client
from dray.controllers.claims import ClaimController
from dray.controllers.garbage import GarbageCollector
from dray.controllers.generated import annotation_for, claim_name
from dray.controllers.quota import QuotaController
from tests import objects
from tests.controllers.conftest import Start, exists, gone, quiet
from tests.waiting import eventually

ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}]}}


@pytest.fixture(autouse=True)
async def namespace(client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})


async def create_template(client: Client, name: str = "t") -> None:
    await client.create(ResourceClaimTemplate, objects.template(name), namespace="ns")


async def create_pod(client: Client, name: str = "p", *, node: str = "", **claims: str) -> Pod:
    """A pod with entries by name: `t:NAME` for a template, otherwise the name of a claim."""
    entries = [
        {"name": entry, "resourceClaimTemplateName": source.removeprefix("t:")}
        if source.startswith("t:")
        else {"name": entry, "resourceClaimName": source}
        for entry, source in claims.items()
    ]
    return await client.create(Pod, objects.pod(name, node=node, resourceClaims=entries), namespace="ns")


async def allocated(client: Client, name: str, *consumers: Pod, **more: Any) -> None:
    """Play the scheduler: finalizer, allocation and reservations."""
    await client.patch(ResourceClaim, name, {"metadata": {"finalizers": [CLAIM_FINALIZER]}}, "ns")
    references = [{"resource": "pods", "name": p.metadata.name, "uid": p.metadata.uid} for p in consumers]
    status = {"allocation": {**ALLOCATION, **more}, "reservedFor": references}
    await client.patch(ResourceClaim, name, {"status": status}, "ns", subresource="status")


async def create_claim(client: Client, name: str = "c", *consumers: Pod) -> None:
    await client.create(ResourceClaim, objects.claim(name), namespace="ns")
    if consumers:
        await allocated(client, name, *consumers)


async def finish(client: Client, name: str, phase: str = "Succeeded") -> None:
    await client.patch(Pod, name, {"status": {"phase": phase}}, "ns", subresource="status")


async def claims(client: Client) -> list[ResourceClaim]:
    return list((await client.list(ResourceClaim, "ns")).items)


async def recorded(client: Client, name: str = "p") -> dict[str, str | None]:
    """Wait until all entries of a pod have a claim in its status."""
    found: dict[str, str | None] = {}

    async def complete() -> bool:
        current = await client.get(Pod, name, "ns")
        found.update({s.name: s.resourceClaimName for s in current.status.resourceClaimStatuses})
        return len(found) == sum(1 for e in current.spec.resourceClaims if e.resourceClaimTemplateName)

    await eventually(complete)
    return found


async def reservations(client: Client, name: str, expected: list[str]) -> None:
    async def matches() -> bool:
        return [r.name for r in (await client.get(ResourceClaim, name, "ns")).status.reservedFor] == expected

    await eventually(matches)


async def deallocated(client: Client, name: str) -> None:
    async def free() -> bool:
        found = await client.get(ResourceClaim, name, "ns")
        return found.status.allocation is None and CLAIM_FINALIZER not in found.metadata.finalizers

    await eventually(free)


# Making claims


async def test_each_entry_gets_one_claim_and_its_name_in_the_status(client: Client, start: Start) -> None:
    await create_template(client)
    async with start(ClaimController):
        await create_pod(client, a="t:t", b="t:t")
        names = await recorded(client)
        assert {c.metadata.name for c in await claims(client)} == set(names.values())
        assert len(set(names.values())) == 2


async def test_entries_that_name_a_claim_get_none(client: Client, start: Start) -> None:
    async with start(ClaimController):
        await create_pod(client, a="somewhere")
        await quiet()
        assert await claims(client) == []


async def test_two_controllers_at_once_make_one_claim_an_entry(client: Client, start: Start) -> None:
    await create_template(client)
    async with start(ClaimController), start(ClaimController):
        await asyncio.gather(*(create_pod(client, f"p{n}", a="t:t", b="t:t") for n in range(10)))
        for n in range(10):
            await recorded(client, f"p{n}")
        assert len(await claims(client)) == 20


async def test_a_controller_that_dies_before_it_records_a_claim_makes_no_second(client: Client, start: Start) -> None:
    await create_template(client)
    async with start(ClaimController):
        await create_pod(client, a="t:t")
        first = await recorded(client)
    await client.patch(Pod, "p", {"status": {"resourceClaimStatuses": None}}, "ns", subresource="status")
    async with start(ClaimController):
        assert await recorded(client) == first
        assert len(await claims(client)) == 1


async def test_a_deleted_claim_is_made_again(client: Client, start: Start) -> None:
    await create_template(client)
    async with start(ClaimController):
        await create_pod(client, a="t:t")
        name = (await recorded(client))["a"]
        assert name is not None
        before = (await client.get(ResourceClaim, name, "ns")).metadata.uid
        await client.delete(ResourceClaim, name, "ns")

        async def replaced() -> bool:
            return [c.metadata.uid for c in await claims(client)] not in ([], [before])

        await eventually(replaced)


async def test_a_name_that_is_recorded_later_leaves_the_names_of_the_others(client: Client, start: Start) -> None:
    await create_template(client)
    await create_pod(client, a="t:t", b="t:t")
    async with start(ClaimController):
        names = await recorded(client)
    half = {"status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": names["a"]}]}}
    await client.patch(Pod, "p", half, "ns", subresource="status")
    async with start(ClaimController):

        async def complete() -> bool:
            statuses = (await client.get(Pod, "p", "ns")).status.resourceClaimStatuses
            return {status.name: status.resourceClaimName for status in statuses} == names

        await eventually(complete)


async def test_a_missing_template_is_told_once_and_waited_for(
    client: Client, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async with start(ClaimController):
        await create_pod(client, a="t:late")

        async def told() -> bool:
            events = (await client.list(Event, "ns")).items
            return any(
                e.reason == "FailedResourceClaimCreation"
                and e.message.startswith('PodResourceClaim a: resource claim template "late": ')
                for e in events
            )

        async def tried_again() -> bool:
            return any(e.count > 2 for e in (await client.list(Event, "ns")).items)

        await eventually(told)
        await eventually(tried_again)
        assert len((await client.list(Event, "ns")).items) == 1
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        await create_template(client, "late")
        await recorded(client)


async def test_a_refused_claim_is_told_and_tried_again(client: Client, start: Start) -> None:
    hard = {"count/resourceclaims.resource.k8s.io": "1"}
    await client.create(ResourceQuota, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace="ns")
    await create_template(client)
    async with start(ClaimController, QuotaController):

        async def counted() -> bool:
            return (await client.get(ResourceQuota, "q", "ns")).status.hard == hard

        await eventually(counted)
        await create_pod(client, "first", a="t:t")
        await recorded(client, "first")
        await create_pod(client, "second", a="t:t")

        async def told() -> bool:
            events = (await client.list(Event, "ns")).items
            return any(e.involvedObject.name == "second" and "exceeded quota" in e.message for e in events)

        await eventually(told)
        await client.patch(ResourceQuota, "q", {"spec": {"hard": {**hard, next(iter(hard)): "2"}}}, "ns")
        await recorded(client, "second")


async def test_a_claim_of_somebody_else_under_the_computed_name_is_left_alone(client: Client, start: Start) -> None:
    await create_template(client)
    waiting = await create_pod(client, a="t:t")
    name = claim_name(waiting, "a")
    await create_claim(client, name)
    async with start(ClaimController):
        await quiet()
        assert not (await client.get(Pod, "p", "ns")).status.resourceClaimStatuses
        await client.delete(ResourceClaim, name, "ns")
        assert await recorded(client) == {"a": name}


async def test_a_claim_that_a_pod_owns_but_does_not_control_is_not_taken_for_a_generated_one(
    client: Client, start: Start
) -> None:
    await create_template(client)
    waiting = await create_pod(client, a="t:t")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": waiting.metadata.uid}
    metadata = {"name": "foreign", "annotations": {annotation_for(waiting): "a"}, "ownerReferences": [owner]}
    await client.create(ResourceClaim, {**objects.claim("foreign"), "metadata": metadata}, namespace="ns")
    async with start(ClaimController):
        name = claim_name(waiting, "a")
        assert await recorded(client) == {"a": name}
        assert sorted(c.metadata.name for c in await claims(client)) == sorted(["foreign", name])


async def test_finished_and_deleted_pods_get_no_claims(client: Client, start: Start) -> None:
    await create_template(client)
    await create_pod(client, "done", a="t:t")
    await finish(client, "done")
    await create_pod(client, "going", a="t:t")
    await client.patch(Pod, "going", {"metadata": {"finalizers": ["test/hold"]}}, "ns")
    await client.delete(Pod, "going", "ns")
    assert (await client.get(Pod, "going", "ns")).metadata.deletionTimestamp is not None
    async with start(ClaimController):
        await quiet()
        assert await claims(client) == []


# Giving back


async def test_a_finished_pod_gives_its_place_to_others(client: Client, start: Start) -> None:
    a, b = await create_pod(client, "a", x="c"), await create_pod(client, "b", x="c")
    await create_claim(client, "c", a, b)
    async with start(ClaimController):
        await finish(client, "a")
        await reservations(client, "c", ["b"])
        assert (await client.get(ResourceClaim, "c", "ns")).status.allocation is not None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_the_last_finished_pod_frees_the_devices(client: Client, start: Start, phase: str) -> None:
    await create_claim(client, "c", await create_pod(client, x="c", node="n"))
    async with start(ClaimController):
        await finish(client, "p", phase)
        await deallocated(client, "c")


async def test_a_deleted_pod_on_a_node_keeps_its_devices_until_it_is_gone(client: Client, start: Start) -> None:
    await create_claim(client, "c", await create_pod(client, x="c", node="n"))
    async with start(ClaimController):
        await client.delete(Pod, "p", "ns")
        await quiet()
        await reservations(client, "c", ["p"])
        await client.delete(Pod, "p", "ns", grace=0)
        await deallocated(client, "c")


async def test_a_force_deleted_pod_frees_its_devices(client: Client, start: Start) -> None:
    await create_claim(client, "c", await create_pod(client, x="c", node="n"))
    async with start(ClaimController):
        await client.delete(Pod, "p", "ns", grace=0)
        await deallocated(client, "c")


async def test_a_pod_that_was_deleted_before_it_ran_frees_its_devices(client: Client, start: Start) -> None:
    await client.create(
        Pod,
        {
            "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "resourceClaims": [{"name": "x", "resourceClaimName": "c"}],
            },
        },
        namespace="ns",
    )
    await create_claim(client, "c", await client.get(Pod, "p", "ns"))
    async with start(ClaimController):
        await client.delete(Pod, "p", "ns")
        await deallocated(client, "c")
        assert await exists(client, Pod, "p", "ns")


async def test_a_reservation_of_an_earlier_pod_of_the_same_name_is_removed(client: Client, start: Start) -> None:
    early = await create_pod(client, x="c")
    await create_claim(client, "c", early)
    await client.delete(Pod, "p", "ns", grace=0)
    await create_pod(client, x="c")
    async with start(ClaimController):
        await deallocated(client, "c")


async def test_what_ended_while_no_controller_ran_is_given_back_later(client: Client, start: Start) -> None:
    await create_claim(client, "c", await create_pod(client, x="c", node="n"))
    await client.delete(Pod, "p", "ns", grace=0)
    async with start(ClaimController):
        await deallocated(client, "c")


async def give_back(client: Client, name: str) -> None:
    """What the scheduler does when it could not bind a pod: the reservation goes, the allocation stays."""
    await client.patch(ResourceClaim, name, {"status": {"reservedFor": None}}, "ns", subresource="status")


async def test_an_allocation_that_was_given_back_stays_until_no_pod_waits_for_it(client: Client, start: Start) -> None:
    a, _ = await create_pod(client, "a", x="c"), await create_pod(client, "b", x="c")
    await create_claim(client, "c", a)
    await create_claim(client, "unused")
    await allocated(client, "unused")  # by somebody who has plans for it
    async with start(ClaimController):
        await give_back(client, "c")
        await client.delete(Pod, "a", "ns")
        await quiet()
        assert (await client.get(ResourceClaim, "c", "ns")).status.allocation is not None
        await client.delete(Pod, "b", "ns")
        await deallocated(client, "c")
        assert (await client.get(ResourceClaim, "unused", "ns")).status.allocation is not None


async def test_an_allocation_that_was_given_back_when_no_pod_waits_for_it_any_more_is_freed(
    client: Client, start: Start
) -> None:
    await create_claim(client, "c", await create_pod(client, "elsewhere"))
    async with start(ClaimController):
        await quiet()
        await give_back(client, "c")
        await deallocated(client, "c")


async def test_a_deleted_claim_goes_when_its_last_pod_does(client: Client, start: Start) -> None:
    await create_claim(client, "c", await create_pod(client, x="c", node="n"))
    async with start(ClaimController):
        await client.delete(ResourceClaim, "c", "ns")
        await quiet()
        assert await exists(client, ResourceClaim, "c", "ns")
        await finish(client, "p")
        await gone(client, ResourceClaim, "c", "ns")


async def test_the_generated_claim_of_a_finished_pod_is_deleted(client: Client, start: Start) -> None:
    await create_template(client)
    async with start(ClaimController):
        owner = await create_pod(client, a="t:t")
        name = (await recorded(client))["a"]
        assert name is not None
        await allocated(client, name, owner)
        await finish(client, "p")
        await gone(client, ResourceClaim, name, "ns")
        assert await exists(client, Pod, "p", "ns")


async def test_the_generated_claim_of_a_pod_that_was_deleted_before_it_ran_is_deleted(
    client: Client, start: Start
) -> None:
    await create_template(client)
    async with start(ClaimController):
        await create_pod(client, a="t:t")
        await client.patch(Pod, "p", {"metadata": {"finalizers": ["example.com/hold"]}}, "ns")
        name = (await recorded(client))["a"]
        assert name is not None
        await client.delete(Pod, "p", "ns")
        await gone(client, ResourceClaim, name, "ns")
        assert await exists(client, Pod, "p", "ns")


async def test_the_generated_claim_of_a_deleted_pod_is_collected(client: Client, start: Start) -> None:
    await create_template(client)
    async with start(ClaimController, GarbageCollector):
        owner = await create_pod(client, a="t:t")
        name = (await recorded(client))["a"]
        assert name is not None
        await allocated(client, name, owner)
        await client.delete(Pod, "p", "ns", grace=0)
        await gone(client, ResourceClaim, name, "ns")


async def test_a_pod_that_was_given_its_node_by_hand_gets_its_reservation(client: Client, start: Start) -> None:
    first = await create_pod(client, "first", x="c", node="n")
    await create_claim(client, "c", first)
    async with start(ClaimController):
        await create_pod(client, "second", x="c", node="n")
        await reservations(client, "c", ["first", "second"])


async def test_a_pod_that_was_given_its_node_by_hand_gets_its_reservation_when_another_has_its_claim_allocated(
    client: Client, start: Start
) -> None:
    await create_claim(client)
    async with start(ClaimController):
        await create_pod(client, "early", x="c", node="n")
        await quiet()
        await allocated(client, "c", await create_pod(client, "first", x="c"))
        await reservations(client, "c", ["first", "early"])


async def test_a_pod_with_a_node_gets_a_reservation_back_that_somebody_took_away(client: Client, start: Start) -> None:
    first, second = [await create_pod(client, name, x="c", node="n") for name in ("first", "second")]
    await create_claim(client, "c", first, second)
    async with start(ClaimController):
        await quiet()
        kept = [{"resource": "pods", "name": "second", "uid": second.metadata.uid}]
        await client.patch(ResourceClaim, "c", {"status": {"reservedFor": kept}}, "ns", subresource="status")
        await reservations(client, "c", ["second", "first"])


RACK = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["n"]}]}]}


async def test_a_pod_that_was_given_a_node_without_the_devices_gets_none(client: Client, start: Start) -> None:
    for name in ("n", "far"):
        await client.create(Node, {"metadata": {"name": name, "labels": {"rack": name}}})
    first = await create_pod(client, "first", x="c", node="n")
    await create_claim(client)
    await allocated(client, "c", first, nodeSelector=RACK)
    async with start(ClaimController):
        await create_pod(client, "astray", x="c", node="far")
        await create_pod(client, "second", x="c", node="n")
        await reservations(client, "c", ["first", "second"])
        await quiet()
        await reservations(client, "c", ["first", "second"])


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_pod_gets_its_reservation_when_its_node_comes_to_reach_the_devices(
    client: Client, start: Start, is_there: bool
) -> None:
    if is_there:
        await client.create(Node, {"metadata": {"name": "far", "labels": {"rack": "elsewhere"}}})
    first = await create_pod(client, "first", x="c", node="n")
    await create_claim(client)
    await allocated(client, "c", first, nodeSelector=RACK)
    async with start(ClaimController):
        await create_pod(client, "second", x="c", node="far")
        await quiet()
        await reservations(client, "c", ["first"])
        if is_there:
            await client.patch(Node, "far", {"metadata": {"labels": {"rack": "n"}}})
        else:
            await client.create(Node, {"metadata": {"name": "far", "labels": {"rack": "n"}}})
        await reservations(client, "c", ["first", "second"])


async def test_an_allocation_cannot_change(client: Client) -> None:
    await create_claim(client, "c", await create_pod(client, x="c"))
    other: dict[str, Any] = {"devices": {"results": [{**ALLOCATION["devices"]["results"][0], "device": "y"}]}}
    with pytest.raises(Invalid, match="field cannot be modified once set"):
        await client.patch(ResourceClaim, "c", {"status": {"allocation": other}}, "ns", subresource="status")
