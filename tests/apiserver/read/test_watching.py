"""Watches: what is told, in which order, and when they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest

from dray.api.errors import Expired, Invalid, ServiceUnavailable
from dray.apiserver.core import ApiServer
from dray.apiserver.read import watching
from dray.apiserver.read.storage import Storage, decode
from dray.apiserver.read.watching import WatchedChange
from dray.client.clock import settle
from dray.store import Cache, MemoryLog, Retention
from dray.store.log import Batch
from tests.apiserver.asking import CLAIMS, Asker, claim
from tests.waiting import eventually, within


async def told(ask: Asker, **options: Any) -> list[WatchedChange]:
    """Everything until the watch ends by itself, which it does at once."""
    options = {"timeout_seconds": 1e-9, **options}
    return [event async for batch in ask.server.watch(ask.request("watch", CLAIMS, **options)) for event in batch]


def brief(events: list[WatchedChange]) -> list[tuple[str, str]]:
    return [(event.type, event.object.metadata.name if event.object else "") for event in events]  # type: ignore[attr-defined]  # claims


async def test_a_watch_without_revision_begins_with_what_is_there(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a"))
    await ask.create(CLAIMS, claim("b"))
    assert brief(await told(ask)) == [("ADDED", "a"), ("ADDED", "b")]
    assert brief(await told(ask, resource_version="0")) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_from_a_revision_tells_what_happened_since(ask: Asker, cache: Cache) -> None:
    await ask.create(CLAIMS, claim("a"))
    since = str(cache.revision)
    await ask.create(CLAIMS, claim("b"))
    await ask.patch(CLAIMS, "a", {"metadata": {"labels": {"x": "y"}}})
    await ask("delete", CLAIMS, "a")
    events = await told(ask, resource_version=since)
    assert brief(events) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a")]
    last: Any = events[-1].object
    assert last.metadata.labels == {"x": "y"}
    assert last.metadata.resourceVersion == str(cache.revision)


async def test_events_come_as_they_happen(ask: Asker) -> None:
    watch = ask.server.watch(ask.request("watch", CLAIMS, timeout_seconds=60))
    first = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0.01)
    created = await ask.create(CLAIMS, claim("a"))
    batch = await within(first)
    assert batch[0].object is created
    await watch.aclose()


async def test_a_watch_sees_the_collection_through_its_selector(ask: Asker, cache: Cache) -> None:
    await ask.create(CLAIMS, claim("a", labels={"colour": "red"}))
    since = str(cache.revision)
    versions = []
    for colour in ("blue", "red", "red", None):
        patched = await ask.patch(CLAIMS, "a", {"metadata": {"labels": {"colour": colour, "n": str(cache.revision)}}})
        versions.append(patched.metadata.resourceVersion)
    await ask("delete", CLAIMS, "a")
    events = await told(ask, resource_version=since, label_selector="colour=red")
    assert [event.type for event in events] == ["DELETED", "ADDED", "MODIFIED", "DELETED"]
    ceased: Any = events[0].object
    assert ceased.metadata.labels["colour"] == "red"
    assert ceased.metadata.resourceVersion == versions[0]


async def test_other_namespaces_are_not_told(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a"), namespace="other")
    assert brief(await told(ask)) == []
    assert brief(await told(ask, namespace="")) == [("ADDED", "a")]


async def test_initial_events_end_with_a_bookmark(ask: Asker, cache: Cache) -> None:
    seen = (await ask.create(CLAIMS, claim("a"))).metadata.resourceVersion
    await ask.create(CLAIMS, claim("b"))
    events = await told(
        ask,
        send_initial_events=True,
        resource_version_match="NotOlderThan",
        allow_bookmarks=True,
        resource_version=seen,
    )
    # What happened since that version is not told again.
    assert brief(events) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
    assert events[2].initial_end
    assert events[2].revision == cache.revision


async def test_quiet_watches_get_bookmarks_if_they_want(
    ask: Asker, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_BOOKMARK_SECONDS", 0.01)
    await ask.create(CLAIMS, claim("a"))
    revision = str(cache.revision)
    options = {"timeout_seconds": 60, "resource_version": revision, "allow_bookmarks": True}
    watch = ask.server.watch(ask.request("watch", CLAIMS, **options))
    for _ in range(2):
        [bookmark] = await within(anext(watch))
        assert (bookmark.type, bookmark.object, bookmark.revision) == ("BOOKMARK", None, cache.revision)
    await watch.aclose()
    assert await told(ask, timeout_seconds=0.05, resource_version=revision) == []


async def test_a_watch_whose_selector_leaves_everything_out_gets_bookmarks_too(
    ask: Asker, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_BOOKMARK_SECONDS", 0.3)  # long enough for others to write in between
    began = cache.revision
    options = {"timeout_seconds": 600, "allow_bookmarks": True, "label_selector": "colour=red"}
    watch = ask.server.watch(ask.request("watch", CLAIMS, **options))
    heard = asyncio.ensure_future(anext(watch))
    names = (f"blue-{number}" for number in count())

    async def told_while_others_write() -> bool:
        await ask.create(CLAIMS, claim(next(names)))
        return heard.done()

    await eventually(told_while_others_write)
    [bookmark] = heard.result()
    assert bookmark.type == "BOOKMARK"
    assert bookmark.revision > began
    await watch.aclose()


async def test_a_revision_that_is_forgotten_is_expired() -> None:
    cache = await Cache.open(MemoryLog(), decode, retention=Retention(events=3))
    ask = Asker(ApiServer(Storage(cache)))
    for n in range(10):
        await ask.create(CLAIMS, claim(f"c{n}"))
    with pytest.raises(Expired, match=r"too old resource version: 2 \(\d+\)"):
        await told(ask, resource_version="2")
    await cache.close()


async def test_a_revision_that_nobody_has_given_out_is_expired(ask: Asker, cache: Cache) -> None:
    await ask.create(CLAIMS, claim("a"))
    with pytest.raises(Expired, match=f"too large resource version: {cache.revision + 1}, current: {cache.revision}"):
        await told(ask, resource_version=str(cache.revision + 1))
    assert await told(ask, resource_version=str(cache.revision)) == []


class Shared:
    """A log that another server writes as well; news of it come when they are let through."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.commit, self.load, self.head, self.compact = log.commit, log.load, log.head, log.compact
        self.close, self.replay = log.close, log.replay
        self.through = asyncio.Event()

    async def tail(self, after: int) -> AsyncIterator[Batch]:
        async for batch in self._log.tail(after):
            await self.through.wait()
            yield batch


async def test_a_revision_that_another_server_has_given_out_is_waited_for() -> None:
    log = MemoryLog()
    ahead = await Cache.open(log, decode)
    shared = Shared(log)
    behind = await Cache.open(shared, decode)
    elsewhere, here = Asker(ApiServer(Storage(ahead))), Asker(ApiServer(Storage(behind)))
    await elsewhere.create(CLAIMS, claim("a"))
    since = ahead.revision
    await elsewhere.create(CLAIMS, claim("b"))
    assert behind.revision < since
    watch = asyncio.ensure_future(told(here, resource_version=str(since)))
    await settle()
    assert not watch.done()
    shared.through.set()
    assert brief(await within(watch)) == [("ADDED", "b")]
    await behind.close()
    await ahead.close()


async def test_a_watch_of_a_store_that_is_closed_is_refused(ask: Asker, cache: Cache) -> None:
    revision = str(cache.revision)
    await cache.close()
    with pytest.raises(ServiceUnavailable, match="shutting down"):
        await told(ask, resource_version=revision)


async def test_a_watcher_that_does_not_keep_up_is_dropped_and_others_are_not() -> None:
    cache = await Cache.open(MemoryLog(), decode, watch_limit=5)
    ask = Asker(ApiServer(Storage(cache)))
    slow, quick = (
        ask.server.watch(ask.request("watch", CLAIMS, timeout_seconds=600, resource_version="0")) for _ in range(2)
    )
    heard: list[str] = []

    async def listen() -> None:
        async for batch in quick:
            heard.extend(name for _, name in brief(batch))

    listening = asyncio.create_task(listen())
    begun = asyncio.create_task(anext(slow))
    await settle()
    for n in range(10):
        await ask.create(CLAIMS, claim(f"c{n}"))
        await eventually(lambda n=n: len(heard) == n + 1)
    assert brief(await within(begun)) == [("ADDED", "c0")]
    with pytest.raises(StopAsyncIteration):
        await within(anext(slow))
    assert heard == [f"c{n}" for n in range(10)]
    listening.cancel()
    await cache.close()


@pytest.mark.parametrize(
    "options",
    [
        {"send_initial_events": True},
        {"send_initial_events": False, "resource_version_match": "Exact", "resource_version": "1"},
        {"resource_version_match": "NotOlderThan", "resource_version": "1"},
        {"continue_token": "x"},
    ],
)
async def test_options_that_make_no_sense_are_refused(ask: Asker, options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        await told(ask, **options)


async def test_a_watch_ends_with_its_server(ask: Asker, cache: Cache) -> None:
    watch = asyncio.ensure_future(told(ask, timeout_seconds=600))
    await asyncio.sleep(0.01)
    await cache.close()
    assert await within(watch) == []
