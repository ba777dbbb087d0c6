"""The one way in: who may do what, and what comes of it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dray.api.calls import Caller, CreateCall
from dray.api.errors import Forbidden, MethodNotAllowed, NotFound, ServiceUnavailable
from dray.api.users import ADMIN, User
from dray.apiserver.assembly import Running, ServerSettings
from dray.store import Cache
from tests.apiserver.asking import CLAIMS, NAMESPACES, PODS, Asker, claim, pod

JANE = User("jane", groups=("system:authenticated",))


async def test_only_who_may_gets_an_answer() -> None:
    running = await Running.open(ServerSettings())
    jane = Asker(running.api, JANE)
    for verb, name, body in (("get", "a", None), ("list", "", None), ("create", "", claim("a")), ("delete", "a", None)):
        with pytest.raises(Forbidden, match=f'User "jane" cannot {verb} resource "resourceclaims"'):
            await jane(verb, CLAIMS, name, body)
    with pytest.raises(Forbidden, match="cannot watch"):
        running.api.watch(jane.request("watch", CLAIMS))
    assert (await Asker(running.api)("list", CLAIMS)).items == []
    await running.close()


async def test_a_namespace_must_be_there_for_what_is_in_it() -> None:
    running = await Running.open(ServerSettings())
    ask = Asker(running.api)
    with pytest.raises(NotFound, match='namespaces "ns" not found'):
        await ask.create(CLAIMS, claim("a"))
    await ask.create(NAMESPACES, {"metadata": {"name": "ns"}})
    await ask.create(CLAIMS, claim("a"))
    await ask("delete", NAMESPACES, "ns")
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await ask.create(CLAIMS, claim("b"))
    await running.close()


async def test_unknown_verbs_are_refused(ask: Asker) -> None:
    with pytest.raises(MethodNotAllowed):
        await ask("fly", CLAIMS, "a")


async def test_readers_share_one_object(ask: Asker) -> None:
    created = await ask.create(CLAIMS, claim("a"))
    assert (await ask("list", CLAIMS)).items[0] is created
    assert await ask.get(CLAIMS, "a") is created
    assert ask.server.storage.get(CLAIMS, "ns", "a") is created


async def test_a_store_that_is_closed_makes_the_server_unavailable(ask: Asker, cache: Cache) -> None:
    await cache.close()
    with pytest.raises(ServiceUnavailable, match="shutting down"):
        await ask("get", CLAIMS, "a", resource_version=str(cache.revision + 99))


async def test_a_caller_may_keep_its_tree(ask: Asker) -> None:
    tree = claim("a")
    tree["spec"]["devices"]["requests"] = tuple(tree["spec"]["devices"]["requests"])
    before = repr(tree)
    created: Any = (await ask.server.answer(Caller(ADMIN), CreateCall(CLAIMS, "ns", body=tree))).object
    assert created.spec.devices.requests[0].exactly.count == 1
    assert repr(tree) == before


async def test_many_writes_and_reads_do_not_take_long(ask: Asker) -> None:
    begun = time.process_time()
    for number in range(500):
        await ask.create(PODS, pod(f"p{number}"))
    assert len(await ask.names(PODS)) == 500
    assert time.process_time() - begun < 5  # ten milliseconds a pod would be a defect, whatever the machine
