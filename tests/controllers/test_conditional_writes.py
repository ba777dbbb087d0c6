"""Somebody else writes between the look at an object and the write that follows from it: what they wrote stays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dray.api.podclaims import CLAIM_FINALIZER
from dray.api.types.core import ConfigMap, Namespace, Node, Pod, ResourceQuota
from dray.api.types.resource import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate
from dray.client import Client
from dray.controllers.claims import ClaimController
from dray.controllers.garbage import GarbageCollector
from dray.controllers.quota import QuotaController
from dray.controllers.taints import TaintEviction
from tests import objects
from tests.controllers.conftest import Start, quiet
from tests.e2e.interference import Write, interposed, meanwhile
from tests.waiting import eventually

ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}]}}
OURS = "example.com/ours"


@pytest.fixture(autouse=True)
async def namespace(client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})


class Interference:
    """A client whose first write that a test is about comes too late."""

    def __init__(self, client: Client, about: Callable[[Write], bool], act: Callable[[], Awaitable[object]]) -> None:
        self.happened = False

        async def acting() -> None:
            await act()
            self.happened = True

        self.client = interposed(client, meanwhile(about, acting))

    async def over(self) -> None:
        """Wait until it has happened and what follows from it is done."""
        await eventually(lambda: self.happened)
        await quiet()


def deletes(type_: type) -> Callable[[Write], bool]:
    return lambda write: write.verb == "delete" and write.type is type_


def says(field: str) -> Callable[[Write], bool]:
    """Whether a patch is about a field of metadata."""
    return lambda write: write.verb == "patch" and not write.subresource and field in write.tree["metadata"]


async def config_map(client: Client, name: str, **metadata: Any) -> ConfigMap:
    return await client.create(ConfigMap, {"metadata": {"name": name, **metadata}}, namespace="ns")


def owned_by(owner: Any, **more: Any) -> list[dict[str, Any]]:
    meta = owner.metadata
    return [{"apiVersion": "v1", "kind": owner.kind, "name": meta.name, "uid": meta.uid, **more}]


async def create_pod(client: Client, name: str = "p", **spec: Any) -> Pod:
    return await client.create(Pod, objects.pod(name, **spec), namespace="ns")


# Garbage collection


async def test_what_lost_its_owners_meanwhile_is_not_collected(client: Client, start: Start) -> None:
    owner = await config_map(client, "owner")
    await config_map(client, "kept", ownerReferences=owned_by(owner))
    await client.delete(ConfigMap, "owner", "ns")

    async def adopt() -> None:
        await client.patch(ConfigMap, "kept", {"metadata": {"ownerReferences": None}}, "ns")

    late = Interference(client, deletes(ConfigMap), adopt)
    async with start(GarbageCollector, own=late.client):
        await late.over()
        assert (await client.get(ConfigMap, "kept", "ns")).metadata.deletionTimestamp is None


async def test_what_took_the_place_of_garbage_is_not_collected(client: Client, start: Start) -> None:
    owner = await config_map(client, "owner")
    await config_map(client, "kept", ownerReferences=owned_by(owner))
    await client.delete(ConfigMap, "owner", "ns")

    async def replace() -> None:
        await client.delete(ConfigMap, "kept", "ns")
        await config_map(client, "kept")

    late = Interference(client, deletes(ConfigMap), replace)
    async with start(GarbageCollector, own=late.client):
        await late.over()
        assert (await client.get(ConfigMap, "kept", "ns")).metadata.ownerReferences == ()


async def test_an_owner_that_comes_meanwhile_stays_when_another_is_struck(client: Client, start: Start) -> None:
    owners = [await config_map(client, name) for name in ("gone", "one", "two")]
    references = [owned_by(owner)[0] for owner in owners]
    await config_map(client, "kept", ownerReferences=references[:2])
    await client.delete(ConfigMap, "gone", "ns")

    async def join() -> None:
        await client.patch(ConfigMap, "kept", {"metadata": {"ownerReferences": references}}, "ns")

    late = Interference(client, says("ownerReferences"), join)
    async with start(GarbageCollector, own=late.client):
        await late.over()

        async def struck() -> bool:
            kept = await client.get(ConfigMap, "kept", "ns")
            return [owner.name for owner in kept.metadata.ownerReferences] == ["one", "two"]

        await eventually(struck)


# Claims


async def allocated(client: Client, name: str, *users: Pod) -> None:
    await client.patch(ResourceClaim, name, {"metadata": {"finalizers": [CLAIM_FINALIZER]}}, "ns")
    await reserve(client, name, *users, allocation=ALLOCATION)


async def reserve(client: Client, name: str, *users: Pod, **status: Any) -> None:
    references = [{"resource": "pods", "name": user.metadata.name, "uid": user.metadata.uid} for user in users]
    patch = {"status": {"reservedFor": references, **status}}
    await client.patch(ResourceClaim, name, patch, "ns", subresource="status")


async def test_a_finalizer_that_comes_meanwhile_stays_when_a_claim_is_freed(client: Client, start: Start) -> None:
    user = await create_pod(client)
    await client.create(ResourceClaim, objects.claim(), namespace="ns")
    await allocated(client, "c", user)
    await client.delete(Pod, "p", "ns", grace=0)

    async def protect() -> None:
        await client.patch(ResourceClaim, "c", {"metadata": {"finalizers": [CLAIM_FINALIZER, OURS]}}, "ns")

    late = Interference(client, says("finalizers"), protect)
    async with start(ClaimController, own=late.client):
        await late.over()
        assert OURS in (await client.get(ResourceClaim, "c", "ns")).metadata.finalizers


async def test_a_generated_claim_that_somebody_else_reserves_meanwhile_is_not_deleted(
    client: Client, start: Start
) -> None:
    await client.create(ResourceClaimTemplate, objects.template(), namespace="ns")
    other = await create_pod(client, "other")
    late = Interference(client, deletes(ResourceClaim), lambda: reserve(client, name, other, allocation=ALLOCATION))
    async with start(ClaimController, own=late.client):
        await create_pod(client, resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}])

        async def made() -> list[Any]:
            return [*(await client.list(ResourceClaim, "ns")).items]

        [claim] = await eventually(made)
        name = claim.metadata.name
        await client.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, "ns", subresource="status")
        await late.over()
        assert (await client.get(ResourceClaim, name, "ns")).metadata.deletionTimestamp is None


async def test_a_claim_of_a_pod_that_ends_before_it_is_recorded_is_deleted(client: Client, start: Start) -> None:
    await client.create(ResourceClaimTemplate, objects.template(), namespace="ns")

    async def end() -> None:
        await client.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, "ns", subresource="status")
        await quiet()

    late = Interference(client, lambda write: "resourceClaimStatuses" in write.changes, end)
    async with start(ClaimController, own=late.client):
        await create_pod(client, resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}])
        await late.over()

        async def is_gone() -> bool:
            return not (await client.list(ResourceClaim, "ns")).items

        await eventually(is_gone)


# Quota


async def test_what_is_admitted_while_a_quota_is_counted_counts(client: Client, start: Start) -> None:
    """The server counts a new object in the quota's status; a late count would forget it."""
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "5"}}}
    await config_map(client, "first")
    await client.create(ResourceQuota, quota, namespace="ns")
    late = Interference(client, lambda write: write.type is ResourceQuota, lambda: config_map(client, "second"))
    async with start(QuotaController, own=late.client):
        await late.over()

        async def right() -> bool:
            return (await client.get(ResourceQuota, "q", "ns")).status.used == {"count/configmaps": "2"}

        await eventually(right)


# Taints


async def test_a_pod_that_took_the_place_of_an_evicted_one_stays(client: Client, start: Start) -> None:
    await client.create(Node, {"metadata": {"name": "n"}})
    await client.create(ResourceClaim, objects.claim(), namespace="ns")
    user = await create_pod(client, nodeName="n", resourceClaims=[{"name": "r", "resourceClaimName": "c"}])
    await allocated(client, "c", user)

    async def replace() -> None:
        await client.delete(Pod, "p", "ns", grace=0)
        await create_pod(client)

    late = Interference(client, deletes(Pod), replace)
    async with start(TaintEviction, own=late.client):
        taint = {"key": "broken", "effect": "NoExecute"}
        rule = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": taint}}
        await client.create(DeviceTaintRule, rule)
        await late.over()
        left = await client.get(Pod, "p", "ns")
        assert left.metadata.uid != user.metadata.uid
        assert left.metadata.deletionTimestamp is None
