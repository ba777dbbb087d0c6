"""Watches that begin with a list: everything once, also what happened after the revision that was asked for."""

from __future__ import annotations

import asyncio

from dray.store import Cache
from tests.apiserver.asking import CLAIMS, Asker, claim
from tests.apiserver.read.test_watching import brief
from tests.waiting import eventually


async def test_what_the_list_has_is_not_told_again_as_news(ask: Asker, cache: Cache) -> None:
    await ask.create(CLAIMS, claim("a"))
    since = str(cache.revision)
    await ask.create(CLAIMS, claim("b"))
    options = {"send_initial_events": True, "resource_version_match": "NotOlderThan", "allow_bookmarks": True}
    watch = ask.server.watch(ask.request("watch", CLAIMS, timeout_seconds=60, resource_version=since, **options))
    told: list[tuple[str, str]] = []

    async def listen() -> None:
        async for batch in watch:
            told.extend(brief(batch))

    listening = asyncio.create_task(listen())
    await eventually(lambda: ("BOOKMARK", "") in told)
    await ask.create(CLAIMS, claim("c"))
    await eventually(lambda: ("ADDED", "c") in told)
    assert told == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", ""), ("ADDED", "c")]
    listening.cancel()
