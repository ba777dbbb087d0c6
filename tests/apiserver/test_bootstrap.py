"""Furnishing a real store, by one server or several at once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from dray.api.types.core import ConfigMap, Namespace, Service
from dray.api.types.rbac import ClusterRole
from dray.api.users import User
from dray.apiserver.bootstrap import bootstrap
from dray.apiserver.read.reader import many, one
from dray.apiserver.read.storage import Storage, decode
from dray.apiserver.security.authorization import Attributes
from dray.apiserver.security.authorization.rbac import Rbac
from dray.store import Cache, MemoryLog, Op


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    log = MemoryLog()
    yield log
    await log.close()


async def test_furnished_once(log: MemoryLog) -> None:
    cache = await Cache.open(log, decode)
    storage = Storage(cache)
    assert await bootstrap(storage, "PEM") > 50
    assert await bootstrap(storage, "PEM") == 0
    assert one(storage, ConfigMap, "kube-system", "kube-root-ca.crt")
    scheduler = User("system:kube-scheduler")
    binding = Attributes("create", resource="pods", subresource="binding", namespace="default")
    assert Rbac(storage).authorize(scheduler, binding).allowed
    await cache.close()


async def test_removed_objects_come_back_at_the_next_start(log: MemoryLog) -> None:
    cache = await Cache.open(log, decode)
    storage = Storage(cache)
    await bootstrap(storage)
    await cache.commit([Op(f"clusterroles.rbac.authorization.k8s.io/{name}", None) for name in ("view", "edit")])
    assert await bootstrap(storage) == 2
    assert one(storage, ClusterRole, "", "view")
    await cache.close()


async def test_the_service_of_the_server_follows_its_address(log: MemoryLog) -> None:
    cache = await Cache.open(log, decode)
    storage = Storage(cache)
    await bootstrap(storage, address="127.0.0.1:6443")
    made = one(storage, Service, "default", "kubernetes")
    assert made is not None
    assert (made.spec.clusterIP, made.spec.ipFamilies, made.spec.ports[0].port) == ("127.0.0.1", ("IPv4",), 6443)
    assert await bootstrap(storage, address="127.0.0.1:6443") == 0
    assert await bootstrap(storage, address="[::1]:6444") == 1
    moved = one(storage, Service, "default", "kubernetes")
    assert moved is not None
    assert (moved.spec.clusterIP, moved.spec.ipFamilies, moved.spec.ports[0].port) == ("::1", ("IPv6",), 6444)
    assert moved.metadata.uid == made.metadata.uid
    await cache.close()


async def test_several_servers_at_once(log: MemoryLog) -> None:
    caches = [await Cache.open(log, decode) for _ in range(3)]
    counts = await asyncio.gather(*(bootstrap(Storage(cache), "PEM") for cache in caches))
    assert max(counts) > 50
    assert {found.metadata.name for found in many(Storage(caches[0]), Namespace)} == {
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    }
    for cache in caches:
        await cache.close()
