"""Copies that lag behind: before anything counts as gone, the server is asked.

Each test has something beside it that is really gone, so that it is known when the controller has done its work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.api.errors import NotFound
from dray.api.podclaims import GROUP_FINALIZER
from dray.api.types.core import ConfigMap, Namespace, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running
from dray.client import Client, EventRecorder, InProcess, SharedInformers
from dray.controllers import ControllerContext, Runnable
from dray.controllers.claims import ClaimController
from dray.controllers.garbage import GarbageCollector
from dray.controllers.groups import GroupController
from tests import objects
from tests.controllers.conftest import exists, gone, quiet
from tests.controllers.test_claims import create_claim, create_pod, deallocated, reservations
from tests.waiting import within
from tests.workloads.cluster import Cluster
from tests.workloads.conftest import idle

__all__ = ["idle"]  # a fixture


class Lagging(InProcess):
    """A client whose lists and watches do not know one kind of objects yet, and whose other answers are right."""

    unknown: type[Any] = Pod

    async def list(self, type_: type[Any], *arguments: Any, **options: Any) -> Any:
        page = await super().list(type_, *arguments, **options)
        return page._replace(items=()) if type_ is self.unknown else page

    async def watch(self, type_: type[Any], *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        async for batch in super().watch(type_, *arguments, **options):
            if type_ is not self.unknown:
                yield batch


@pytest.fixture(autouse=True)
async def namespace(client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})


@asynccontextmanager
async def lagging(
    server: Running,
    unknown: type[Any],
    controller: Callable[[ControllerContext], Runnable],
    client: Client | None = None,
) -> AsyncIterator[None]:
    """Run a controller whose copies lack one kind."""
    real = client or InProcess(server.api, ADMIN)
    behind = Lagging(server.api, ADMIN)
    behind.unknown = unknown
    informers, recorder = SharedInformers(behind), EventRecorder(real, "test")
    running = controller(ControllerContext(real, informers, recorder))
    await informers.start()
    await within(informers.synced())
    tasks = [asyncio.create_task(each.run()) for each in (running, recorder)]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await informers.stop()


async def test_a_pod_that_the_copies_do_not_know_keeps_its_devices(server: Running, client: Client) -> None:
    await create_claim(client, "kept", await create_pod(client, "there", x="kept", node="n"))
    await create_claim(client, "free", await create_pod(client, "leaves", x="free", node="n"))
    await client.delete(Pod, "leaves", "ns", grace=0)
    async with lagging(server, Pod, ClaimController):
        await deallocated(client, "free")
        await quiet()
    await reservations(client, "kept", ["there"])


async def test_the_claim_of_a_pod_that_the_copies_do_not_know_stays(server: Running, client: Client) -> None:
    for name in ("there", "leaves"):
        owner = await create_pod(client, name, x="t:t", node="n")
        reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": owner.metadata.uid, "controller": True}
        annotations = {"resource.kubernetes.io/pod-claim-name": "x"}
        metadata = {"ownerReferences": [reference], "annotations": annotations}
        await client.create(ResourceClaim, objects.claim(f"of-{name}", metadata=metadata), namespace="ns")
    await client.delete(Pod, "leaves", "ns", grace=0)
    async with lagging(server, Pod, ClaimController):
        await gone(client, ResourceClaim, "of-leaves", "ns")
        await quiet()
    assert await exists(client, ResourceClaim, "of-there", "ns")


async def test_a_group_whose_pods_the_copies_do_not_know_stays(idle: Cluster) -> None:
    server, client = idle.server, idle.client
    for name in ("kept", "empty"):
        spec = {"schedulingPolicy": {"basic": {}}, "workloadRef": {"workloadName": "w", "templateName": "t"}}
        metadata = {"name": name, "finalizers": [GROUP_FINALIZER]}
        await client.create(PodGroup, {"metadata": metadata, "spec": spec}, namespace="ns")
    member = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "kept"}}
    await client.create(Pod, {"metadata": {"name": "p"}, "spec": member}, namespace="ns")
    for name in ("kept", "empty"):
        await client.delete(PodGroup, name, "ns")
    async with lagging(server, Pod, GroupController):
        await gone(client, PodGroup, "empty", "ns")
        await quiet()
    assert (await client.get(PodGroup, "kept", "ns")).metadata.finalizers == (GROUP_FINALIZER,)


async def dependent(client: Client, name: str, owner: Pod) -> None:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner.metadata.name, "uid": owner.metadata.uid}
    await client.create(ConfigMap, {"metadata": {"name": name, "ownerReferences": [reference]}}, namespace="ns")


async def test_an_owner_that_the_copies_do_not_know_keeps_its_dependents(server: Running, client: Client) -> None:
    await dependent(client, "kept", await create_pod(client, "there"))
    await dependent(client, "free", await create_pod(client, "leaves"))
    await client.delete(Pod, "leaves", "ns", grace=0)
    async with lagging(server, Pod, GarbageCollector):
        await gone(client, ConfigMap, "free", "ns")
        await quiet()
    assert await exists(client, ConfigMap, "kept", "ns")


class Unserved(InProcess):
    """A client of a server that does not serve pods: its answer names no object."""

    async def get(self, type_: type[Any], name: str, namespace: str = "") -> Any:
        if type_ is Pod:
            raise NotFound("the server could not find the requested resource")
        return await super().get(type_, name, namespace)


async def test_an_owner_whose_api_is_not_served_keeps_its_dependents(server: Running, client: Client) -> None:
    await dependent(client, "kept", await create_pod(client, "there"))
    owner = await client.create(ConfigMap, {"metadata": {"name": "owner"}}, namespace="ns")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    await client.create(ConfigMap, {"metadata": {"name": "free", "ownerReferences": [reference]}}, namespace="ns")
    await client.delete(ConfigMap, "owner", "ns")
    async with lagging(server, Pod, GarbageCollector, Unserved(server.api, ADMIN)):
        await gone(client, ConfigMap, "free", "ns")
        await quiet()
    assert await exists(client, ConfigMap, "kept", "ns")
