"""GET, LIST and WATCH from the cache, above every log."""

import asyncio
import itertools
import random
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.store import (
    Cache,
    Closed,
    Compacted,
    Lagged,
    Log,
    MemoryLog,
    Op,
    Retention,
    RevisionConflict,
    RevisionExpired,
    StoreError,
    StoreEvent,
)
from dray.store.log import FORGOTTEN_AT_ONCE
from tests.waiting import SECONDS, within

OpenCache = Callable[..., Awaitable[Cache]]


async def put(cache: Cache, key: str, value: bytes = b"v", expected: int | None = None) -> int:
    return await cache.commit([Op(key, value, expected)])


def keys(cache: Cache, prefix: str, revision: int | None = None) -> list[str]:
    return [version.key for version in cache.list(prefix, revision=revision).versions]


def told(events: Sequence[StoreEvent]) -> list[tuple[str, str, bytes | None, bytes | None]]:
    return [(e.type, e.key, e.version.value, e.previous.value if e.previous else None) for e in events]


class Recorder:
    """A subscriber that remembers what it was told."""

    def __init__(self) -> None:
        self.events: list[StoreEvent] = []
        self.lost: StoreError | None = None

    def deliver(self, events: Sequence[StoreEvent]) -> None:
        self.events += events

    def lose(self, reason: StoreError) -> None:
        self.lost = reason


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


# Reading and writing


async def test_a_commit_is_visible_when_it_returns(cache: Cache) -> None:
    revision = await put(cache, "pods/a", b"1", expected=0)
    version = cache.get("pods/a")
    assert version is not None
    assert (version.value, version.revision, version.created) == (b"1", revision, revision)
    assert cache.revision >= revision
    await cache.commit([Op("pods/a", None, revision)])
    assert cache.get("pods/a") is None


async def test_conflicts_come_through(cache: Cache) -> None:
    revision = await put(cache, "pods/a")
    with pytest.raises(RevisionConflict) as conflict:
        await put(cache, "pods/a", expected=0)
    assert conflict.value.actual == revision


async def test_after_a_conflict_the_cache_has_what_was_in_the_way(cache: Cache) -> None:
    """Otherwise whoever reads and tries again runs into the same conflict until the disk or the network is done."""
    expected = await cache.commit([Op("pods/a", b"1", 0)])
    first = asyncio.create_task(cache.commit([Op("pods/a", b"2", expected)]))
    for _ in range(100):
        await asyncio.sleep(0)
        try:
            await cache.commit([Op("pods/a", b"3", expected)])
        except RevisionConflict:
            break
    found = cache.get("pods/a")
    assert found is not None
    assert found.revision > expected
    await asyncio.gather(first, return_exceptions=True)


async def test_list_gives_a_prefix_in_order(cache: Cache) -> None:
    for key in ("pods/b/2", "pods/a/1", "pods/b/1", "pods/bb/1", "pod/x", "nodes/n", "pods/a-b/1"):
        await put(cache, key)
    assert keys(cache, "pods/") == ["pods/a-b/1", "pods/a/1", "pods/b/1", "pods/b/2", "pods/bb/1"]
    assert keys(cache, "pods/b/") == ["pods/b/1", "pods/b/2"]
    assert keys(cache, "nothing/") == []
    assert keys(cache, "") == sorted(["pod/x", "nodes/n", *keys(cache, "pods/")])
    assert (cache.count("pods/b/"), cache.count("")) == (2, 7)
    with pytest.raises(ValueError, match="slash"):
        cache.list("pods")


async def test_a_deleted_key_is_gone_from_lists_and_may_come_back(cache: Cache) -> None:
    for name in "abc":
        await put(cache, f"pods/{name}")
    assert keys(cache, "pods/") == ["pods/a", "pods/b", "pods/c"]
    await cache.commit([Op("pods/b", None)])
    assert keys(cache, "pods/") == ["pods/a", "pods/c"]
    assert cache.count("pods/") == 2
    page = cache.list("pods/", limit=2)
    assert (len(page.versions), page.remaining) == (2, 0)
    await put(cache, "pods/b")
    assert keys(cache, "pods/") == ["pods/a", "pods/b", "pods/c"]


async def test_what_was_deleted_is_not_counted(cache: Cache) -> None:
    await cache.commit([Op(f"pods/{n}", b"") for n in range(9)])
    assert cache.count("") == 9
    await cache.commit([Op("pods/7", None)])
    assert (cache.count("pods/"), cache.count("")) == (8, 8)


@settings(max_examples=50)
@given(st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=40), min_size=1, max_size=4), st.data())
async def test_pages_say_how_many_follow_whatever_comes_and_goes(
    rounds: list[list[tuple[bool, int]]], data: st.DataObject
) -> None:
    log = MemoryLog()
    cache = await Cache.open(log)
    states: dict[int, list[str]] = {}
    for changes in rounds:
        for exists, n in changes:
            await cache.commit([Op(f"pods/{n:02}", b"" if exists else None)])
        states[cache.revision] = keys(cache, "pods/")
    for revision, expected in states.items():
        limit = data.draw(st.integers(1, 31))
        shown = cache.list("pods/", revision=revision, limit=limit)
        assert ([v.key for v in shown.versions], shown.remaining) == (expected[:limit], len(expected[limit:]))
    await cache.close()
    await log.close()


async def test_pages_of_a_list_show_one_snapshot(cache: Cache) -> None:
    names = [f"pods/{n:03}" for n in range(100)]
    await cache.commit([Op(name, b"old") for name in names])
    page = cache.list("pods/", limit=30)
    first, seen = page.revision, list(page.versions)
    assert page.remaining == 70
    while page.remaining:
        after = seen[-1].key
        await cache.commit([Op(after, None), Op(after + "x", b"new")])
        await cache.commit([Op(names[-1], b"newer"), Op(names[97], None)])
        page = cache.list("pods/", revision=first, after=after, limit=30)
        assert page.revision == first
        seen += page.versions
    assert [version.key for version in seen] == names
    assert {version.value for version in seen} == {b"old"}


async def test_a_list_at_a_revision_to_come_is_refused(cache: Cache) -> None:
    await put(cache, "pods/a")
    with pytest.raises(ValueError, match="not there yet"):
        cache.list("pods/", revision=cache.revision + 1)


async def test_objects_are_decoded_once_and_on_demand(log: Log, open_cache: OpenCache) -> None:
    decoded: list[tuple[str, bytes, int]] = []

    def decode(key: str, value: bytes, revision: int) -> object:
        decoded.append((key, value, revision))
        return object()

    cache = await open_cache(log, decode)
    revision = await put(cache, "pods/a", b"1")
    await put(cache, "pods/b", b"2")
    version = cache.get("pods/a")
    assert decoded == []
    assert version is not None
    assert version.object is version.object
    assert decoded == [("pods/a", b"1", revision)]


async def test_superseded_objects_are_kept_as_bytes_and_decoded_again(log: Log, open_cache: OpenCache) -> None:
    decoded: list[bytes] = []

    def decode(key: str, value: bytes, revision: int) -> object:
        decoded.append(value)
        return {value}

    cache = await open_cache(log, decode)
    revision = await put(cache, "pods/a", b"1")
    [before] = cache.list("pods/").versions
    kept = weakref.ref(cast("set[bytes]", before.object))
    await put(cache, "pods/a", b"2")
    await cache.upkeep()
    assert kept() is not None  # whoever is told right now may want it
    await cache.upkeep()
    assert kept() is None
    [again] = cache.list("pods/", revision=revision).versions
    assert again.object == {b"1"}
    assert decoded == [b"1", b"1"]
    read = weakref.ref(cast("set[bytes]", again.object))
    assert read() is None  # else one reader of all that there was fills the memory


async def test_objects_that_are_seldom_read_are_kept_as_bytes_soon_after_they_were_written(
    open_cache: OpenCache,
) -> None:
    cache = await open_cache(MemoryLog(), lambda key, value, revision: {value}, cold=("events/",))
    kept = {}
    for key in ("events/a", "pods/a"):
        await put(cache, key, b"1")
        version = cache.get(key)
        assert version is not None
        kept[key] = weakref.ref(cast("set[bytes]", version.object))
        del version
    for _ in range(2):
        assert kept["events/a"]() is not None  # whoever is told right now may want it
        await cache.upkeep()
    assert (kept["events/a"](), kept["pods/a"]()) == (None, {b"1"})
    again = cache.get("events/a")
    assert again is not None
    assert again.object == {b"1"}


async def test_few_large_objects_are_kept_decoded_once_superseded(open_cache: OpenCache) -> None:
    cache = await open_cache(MemoryLog(), lambda key, value, revision: {value[:1]})
    kept = []
    for number in range(12):
        await put(cache, "definitions/a", b"%d" % (number % 10) + b"x" * (1 << 20))
        version = cache.get("definitions/a")
        assert version is not None
        kept.append(weakref.ref(cast("set[bytes]", version.object)))
    assert sum(one() is not None for one in kept) <= 6


async def test_the_writer_may_hand_over_the_object(open_cache: OpenCache) -> None:
    def decode(key: str, value: bytes, revision: int) -> object:
        raise AssertionError("it was handed over")

    cache = await open_cache(MemoryLog(), decode)
    revision = await cache.commit([Op("pods/a", b"1", make=lambda key, value, revision: (key, revision))])
    version = cache.get("pods/a")
    assert version is not None
    assert version.object == ("pods/a", revision)


async def test_a_new_cache_has_what_an_older_one_wrote(log: Log, cache: Cache, open_cache: OpenCache) -> None:
    await cache.commit([Op(f"pods/{n:02}", b"") for n in range(20)])
    before = cache.revision
    last = await cache.commit([Op("pods/00", None)])
    other = await open_cache(log)
    assert keys(other, "pods/") == keys(cache, "pods/")
    assert other.revision >= last  # not cache.revision: etcd's may meanwhile have seen a fence that `other` has not
    # It has some history too: a watcher that reconnects after a restart need not list anew.
    watch = other.watch("pods/", before)
    assert told(await watch.next()) == [("DELETED", "pods/00", None, b"")]


async def test_wait_for_returns_when_the_revision_is_there(cache: Cache) -> None:
    revision = await put(cache, "pods/a")
    await cache.wait_for(revision)
    waiting = [asyncio.create_task(cache.wait_for(revision + n)) for n in (1, 2, 1)]
    await asyncio.sleep(0)
    await put(cache, "pods/b")
    await put(cache, "pods/c")
    await within(asyncio.gather(*waiting))
    with pytest.raises(TimeoutError):
        await cache.wait_for(revision + 1_000_000, timeout=0.01)
    assert cache._waiters == []  # whoever gave up is not remembered


async def test_whoever_gives_up_delays_nobody_else(cache: Cache) -> None:
    """The one that gives up waits for the next revision, before others that wait for later ones."""
    now = await put(cache, "pods/a")
    hasty = asyncio.create_task(cache.wait_for(now + 1, timeout=0.01))
    await asyncio.sleep(0)
    distant, near = (asyncio.create_task(cache.wait_for(now + n)) for n in (1_000_000, 2))
    with pytest.raises(TimeoutError):
        await hasty
    await put(cache, "pods/b")
    await put(cache, "pods/c")
    await within(near)
    assert not distant.done()
    distant.cancel()


async def test_a_consistent_read_sees_what_another_client_wrote(log: Log, cache: Cache) -> None:
    for n in range(10):
        revision = await log.commit([Op(f"pods/{n}", b"")])
        assert await cache.read(timeout=SECONDS) >= revision
        assert cache.get(f"pods/{n}") is not None


# Watching


async def test_events_carry_the_states_before_and_after(cache: Cache) -> None:
    watch = cache.watch("pods/", cache.revision)
    await put(cache, "pods/a", b"1")
    await put(cache, "nodes/n", b"1")
    await put(cache, "pods/a", b"2")
    await cache.commit([Op("pods/a", None)])
    events: list[StoreEvent] = []
    while len(events) < 3:
        events += await watch.next(timeout=SECONDS)
    assert told(events) == [
        ("ADDED", "pods/a", b"1", None),
        ("MODIFIED", "pods/a", b"2", b"1"),
        ("DELETED", "pods/a", None, b"2"),
    ]
    assert [event.revision for event in events] == sorted({event.revision for event in events})
    assert watch.revision == cache.revision >= events[-1].revision


async def test_a_subscriber_is_told_before_the_commit_returns(cache: Cache) -> None:
    recorder = Recorder()
    cache.subscribe("pods/default/", cache.revision, recorder.deliver, recorder.lose)
    revision = await cache.commit([Op("pods/default/a", b"1"), Op("pods/other/a", b"1"), Op("pods/default/b", b"1")])
    assert [(e.key, e.revision) for e in recorder.events] == [
        ("pods/default/a", revision),
        ("pods/default/b", revision),
    ]


async def test_a_watch_starts_after_any_revision_that_is_kept(cache: Cache) -> None:
    revisions = [cache.revision, *[await put(cache, f"pods/{n}") for n in range(5)]]
    for n, revision in enumerate(revisions):
        recorder = Recorder()
        cache.subscribe("pods/", revision, recorder.deliver, recorder.lose)
        assert [event.key for event in recorder.events] == [f"pods/{m}" for m in range(n, 5)]


async def test_a_single_key_can_be_watched(cache: Cache) -> None:
    start = cache.revision
    await cache.commit([Op("pods/a", b""), Op("pods/aa", b"")])
    watch = cache.watch("pods/a", start)
    assert [event.key for event in await watch.next()] == ["pods/a"]
    await cache.commit([Op("pods/aa", b"1"), Op("pods/a", b"1")])
    assert [event.key for event in await watch.next(timeout=SECONDS)] == ["pods/a"]


async def test_a_watch_from_a_revision_to_come_leaves_out_what_is_before(cache: Cache) -> None:
    first = await put(cache, "pods/a")
    watch = cache.watch("pods/", first + 1)
    assert watch.revision == first + 1
    revisions = {key: await put(cache, key) for key in ("pods/b", "pods/c")}
    # Usually c alone; with etcd the revision to come may also be one of its fences.
    later = [key for key, revision in revisions.items() if revision > first + 1]
    assert [event.key for event in await watch.next(timeout=SECONDS)] == later


async def test_a_silent_watch_returns_nothing_and_says_how_far_it_is(cache: Cache) -> None:
    watch = cache.watch("pods/", cache.revision)
    revision = await put(cache, "nodes/n")
    assert await watch.next(timeout=0.01) == []
    assert watch.revision >= revision


async def test_a_bookmark_never_overtakes_events_that_wait(cache: Cache) -> None:
    watch = cache.watch("pods/", cache.revision)
    first = await put(cache, "pods/a")
    await put(cache, "pods/b")
    assert watch.revision < first
    await watch.next()
    assert watch.revision == cache.revision


async def test_too_old_a_revision_is_expired(open_cache: OpenCache) -> None:
    cache = await open_cache(MemoryLog(), retention=Retention(events=10))
    for n in range(50):
        await put(cache, "pods/a", str(n).encode())
    assert cache.oldest >= 39
    cache.watch("pods/", cache.oldest)
    with pytest.raises(RevisionExpired) as expired:
        cache.watch("pods/", cache.oldest - 1)
    assert expired.value.oldest == cache.oldest
    with pytest.raises(RevisionExpired):
        cache.list("pods/", revision=cache.oldest - 1)
    assert keys(cache, "pods/", cache.oldest) == ["pods/a"]


async def test_history_is_bounded_by_size(open_cache: OpenCache) -> None:
    cache = await open_cache(MemoryLog(), retention=Retention(bytes=10_000))
    for _ in range(50):
        await put(cache, "pods/a", bytes(1000))
    assert 8 <= cache.revision - cache.oldest <= 11


async def test_history_is_forgotten_in_steps_that_let_others_go_first(open_cache: OpenCache) -> None:
    """Counted in events that one turn of the event loop forgets, here and in the log."""
    now, log = [0.0], MemoryLog()
    cache = await open_cache(log, retention=Retention(seconds=300), clock=lambda: now[0])
    for _ in range(3 * FORGOTTEN_AT_ONCE):
        await cache.commit([Op("pods/a", b"x")])
    await cache.upkeep()
    now[0] += 301
    floors: list[tuple[int, int]] = []

    def note() -> None:
        floors.append((cache.oldest, log._state.floor))
        asyncio.get_running_loop().call_soon(note)

    note()
    await cache.upkeep()
    floors.append((cache.oldest, log._state.floor))
    assert floors[-1] == (3 * FORGOTTEN_AT_ONCE, 3 * FORGOTTEN_AT_ONCE)
    for before, after in itertools.pairwise(floors):
        assert after[0] - before[0] <= FORGOTTEN_AT_ONCE
        assert after[1] - before[1] <= FORGOTTEN_AT_ONCE


async def test_history_is_bounded_by_age_here_and_in_the_log(log: Log, open_cache: OpenCache) -> None:
    clock = Clock()
    cache = await open_cache(log, retention=Retention(seconds=300), clock=clock)
    first = await put(cache, "pods/a")
    await cache.upkeep()
    clock.now = 100
    await put(cache, "pods/b")
    clock.now = 299
    await cache.upkeep()
    cache.watch("pods/", first)
    clock.now = 301
    await cache.upkeep()
    assert cache.oldest == first
    clock.now = 700
    await cache.upkeep()
    with pytest.raises(RevisionExpired):
        cache.watch("pods/", first)
    page = await log.load()
    with pytest.raises(Compacted):
        await log.load(first - 1)
    assert [version.key for version in page.versions] == ["pods/a", "pods/b"]


async def test_of_keys_that_are_gone_nothing_is_kept_when_their_history_is_forgotten() -> None:
    class Key(str):  # a text cannot be referred to weakly
        pass

    clock, log = Clock(), MemoryLog()
    cache = await Cache.open(log, retention=Retention(seconds=10), clock=clock)
    names = [Key(f"pods/{number:03}") for number in range(200)]
    gone = [weakref.ref(name) for name in names]
    for name in names:
        await put(cache, name)
    assert len(keys(cache, "pods/")) == 200
    names.clear()
    del name
    for number in range(200):
        await cache.commit([Op(f"pods/{number:03}", None)])
    await cache.upkeep()
    assert all(one() is not None for one in gone)
    clock.now += 11
    await cache.upkeep()
    assert all(one() is None for one in gone)
    await cache.close()
    await log.close()


async def test_a_starting_cache_leaves_the_history_that_another_one_serves(
    log: Log, open_cache: OpenCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(log), "replay", 0)  # as if the history were longer than what is loaded of it
    older = await open_cache(log)
    first = await put(older, "pods/a", b"1")
    await put(older, "pods/a", b"2")
    younger = await open_cache(log)
    assert younger.oldest > first
    await younger.upkeep()
    assert [version.value for version in (await log.load(first)).versions] == [b"1"]
    assert told(await older.watch("pods/", first).next()) == [("MODIFIED", "pods/a", b"2", b"1")]


async def test_a_slow_watcher_is_dropped_and_nobody_else(open_cache: OpenCache) -> None:
    cache = await open_cache(MemoryLog(), watch_limit=10)
    slow, quick = cache.watch("pods/", 0), cache.watch("pods/", 0)
    seen = 0
    for n in range(30):
        await put(cache, f"pods/{n}")
        seen += len(await quick.next())
    assert seen == 30
    with pytest.raises(Lagged):
        await slow.next()


async def test_what_was_missed_before_the_start_is_no_lag(open_cache: OpenCache) -> None:
    cache = await open_cache(MemoryLog(), watch_limit=10)
    for n in range(100):
        await put(cache, f"pods/{n}")
    watch = cache.watch("pods/", 0)
    await put(cache, "pods/one-more")
    assert len(await watch.next()) == 101
    for n in range(11):
        await put(cache, f"pods/{n}")
    with pytest.raises(Lagged):
        await watch.next()


async def test_a_subscriber_that_fails_is_dropped_and_the_commit_stands(
    cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(events: Sequence[StoreEvent]) -> None:
        raise RuntimeError("broken consumer")

    failing, sound = Recorder(), Recorder()
    start = cache.revision
    cache.subscribe("pods/", start, fail, failing.lose)
    cache.subscribe("pods/", start, sound.deliver, sound.lose)
    await put(cache, "pods/a")
    await put(cache, "pods/b")
    assert "broken consumer" in str(failing.lost)
    assert [event.key for event in sound.events] == ["pods/a", "pods/b"]
    assert caplog.text.count("was dropped") == 1


async def test_a_subscriber_may_end_another_in_the_middle_of_a_batch(cache: Cache) -> None:
    recorder = Recorder()
    cache.subscribe("pods/", cache.revision, lambda events: second.close(), recorder.lose)
    second = cache.subscribe("pods/", cache.revision, recorder.deliver, recorder.lose)
    await put(cache, "pods/a")
    assert recorder.events == []


async def test_a_closed_watch_gets_nothing(cache: Cache) -> None:
    watch, recorder = cache.watch("pods/", cache.revision), Recorder()
    subscription = cache.subscribe("pods/", cache.revision, recorder.deliver, recorder.lose)
    watch.close()
    subscription.close()
    await put(cache, "pods/a")
    with pytest.raises(Closed):
        await watch.next()
    assert recorder.events == []
    assert recorder.lost is None


async def test_closing_the_cache_ends_watches_and_waits(log: Log, open_cache: OpenCache) -> None:
    cache = await open_cache(log)
    watch = cache.watch("pods/", cache.revision)
    waiting = [asyncio.ensure_future(watch.next()), asyncio.ensure_future(cache.wait_for(cache.revision + 1000))]
    await asyncio.sleep(0)
    await cache.close()
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, Closed)


async def test_watchers_see_every_event_once_whenever_they_come(cache: Cache) -> None:
    """Writers and watchers at once; each watcher lists, then watches, and must end with the cache's own state."""

    async def write(seed: int) -> None:
        choices = random.Random(seed)
        for n in range(30):
            key = f"pods/{choices.randrange(10)}"
            await cache.commit([Op(key, None if choices.random() < 0.3 else f"{seed}/{n}".encode())])

    async def follow(delay: float) -> dict[str, bytes | None]:
        await asyncio.sleep(delay)
        page = cache.list("pods/")
        state = {version.key: version.value for version in page.versions}
        watch = cache.watch("pods/", page.revision)
        last = page.revision
        while not (written.is_set() and watch.revision >= cache.revision):
            for event in await watch.next(timeout=0.05):
                assert event.revision > last
                last = event.revision
                assert state.get(event.key) == (event.previous.value if event.previous else None)
                state[event.key] = event.version.value
        return {key: value for key, value in state.items() if value is not None}

    written = asyncio.Event()
    following = [asyncio.create_task(follow(n * 0.003)) for n in range(10)]
    await asyncio.gather(*[write(n) for n in range(5)])
    written.set()
    truth = {version.key: version.value for version in cache.list("pods/").versions}
    assert await asyncio.gather(*following) == [truth] * 10
