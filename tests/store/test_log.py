"""What every log has to do. Revisions are compared, never counted: etcd's may skip numbers."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from dray.store import Closed, Compacted, KeyVersion, Log, Op, RevisionConflict, StoreError
from tests.waiting import SECONDS, within


async def put(log: Log, key: str, value: bytes = b"v", expected: int | None = None) -> int:
    return await log.commit([Op(key, value, expected)])


async def contents(log: Log, revision: int | None = None) -> dict[str, bytes | None]:
    return {version.key: version.value for version in (await log.load(revision)).versions}


async def follow(log: Log, after: int, until: int) -> list[KeyVersion]:
    """The versions that a tail gives up to a revision."""
    versions: list[KeyVersion] = []
    async with asyncio.timeout(SECONDS):
        async for batch in log.tail(after):
            versions += batch.versions
            if batch.revision >= until:
                break
    return versions


async def test_create_needs_the_key_to_be_absent(log: Log) -> None:
    revision = await put(log, "pods/a", expected=0)
    with pytest.raises(RevisionConflict) as conflict:
        await put(log, "pods/a", b"other", expected=0)
    assert (conflict.value.key, conflict.value.expected, conflict.value.actual) == ("pods/a", 0, revision)
    assert await contents(log) == {"pods/a": b"v"}


async def test_update_needs_the_expected_revision(log: Log) -> None:
    first = await put(log, "pods/a", b"1")
    second = await put(log, "pods/a", b"2", expected=first)
    assert second > first
    with pytest.raises(RevisionConflict) as conflict:
        await put(log, "pods/a", b"3", expected=first)
    assert conflict.value.actual == second
    with pytest.raises(RevisionConflict) as conflict:
        await put(log, "pods/missing", b"3", expected=first)
    assert conflict.value.actual == 0


async def test_delete_needs_the_expected_revision(log: Log) -> None:
    revision = await put(log, "pods/a")
    with pytest.raises(RevisionConflict):
        await log.commit([Op("pods/a", None, revision + 1)])
    await log.commit([Op("pods/a", None, revision)])
    assert await contents(log) == {}


async def test_no_expectation_takes_any_state(log: Log) -> None:
    await put(log, "pods/a", b"1")
    await put(log, "pods/a", b"2")
    assert await contents(log) == {"pods/a": b"2"}


async def test_a_commit_is_done_whole_or_not_at_all(log: Log) -> None:
    revision = await put(log, "pods/a", b"1")
    with pytest.raises(RevisionConflict) as conflict:
        await log.commit([Op("pods/b", b"2"), Op("pods/a", None, revision), Op("pods/c", b"3", 99_999_999)])
    assert conflict.value.key == "pods/c"
    assert await contents(log) == {"pods/a": b"1"}
    done = await log.commit([Op("pods/b", b"2"), Op("pods/a", None, revision), Op("pods/c", b"3", 0)])
    assert [(v.key, v.revision) for v in (await log.load()).versions] == [("pods/b", done), ("pods/c", done)]


async def test_a_commit_that_changes_nothing_makes_no_revision(log: Log) -> None:
    revision = await put(log, "pods/a")
    assert await log.commit([Op("pods/missing", None)]) == revision
    assert await log.commit([Op("pods/missing", None, 0)]) == revision
    assert await log.head() == revision


@pytest.mark.parametrize("ops", [[], [Op("a", b"")] * 2, [Op("", b"")], [Op("\0a", b"")], [Op("a", b""), Op("", b"")]])
async def test_impossible_commits_are_refused(log: Log, ops: list[Op]) -> None:
    with pytest.raises(ValueError, match=r"commit|key"):
        await log.commit(ops)


async def test_created_is_the_revision_since_which_the_key_exists(log: Log) -> None:
    created = await put(log, "pods/a", b"1")
    changed = await put(log, "pods/a", b"2")
    [version] = (await log.load()).versions
    assert (version.created, version.revision) == (created, changed)
    await log.commit([Op("pods/a", None)])
    again = await put(log, "pods/a", b"3")
    [version] = (await log.load()).versions
    assert (version.created, version.revision) == (again, again)


async def test_load_pages_in_key_order_at_one_revision(log: Log) -> None:
    names = [f"pods/{n:02}" for n in range(10)]
    revision = await log.commit([Op(name, name.encode()) for name in names])
    page = await log.load(limit=4)
    assert [version.key for version in page.versions] == names[:4]
    assert (page.revision, page.remaining) == (revision, 6)
    await log.commit([Op("pods/00", None), Op("pods/05", None), Op("pods/055", b""), Op("pods/06", b"new")])
    page = await log.load(revision, after="pods/03", limit=4)
    assert [(version.key, version.value) for version in page.versions] == [(n, n.encode()) for n in names[4:8]]
    page = await log.load(revision, after="pods/07", limit=4)
    assert [version.key for version in page.versions] == names[8:]
    assert page.remaining == 0


async def test_keys_are_ordered_as_utf8(log: Log) -> None:
    keys = ["a", "a/", "a0", "é", "￿", "\U0001f600"]
    await log.commit([Op(key, b"") for key in reversed(keys)])
    assert [version.key for version in (await log.load()).versions] == keys


async def test_values_may_be_empty_or_large(log: Log) -> None:
    large = bytes(range(256)) * 4000
    await log.commit([Op("pods/empty", b""), Op("pods/large", large)])
    assert await contents(log) == {"pods/empty": b"", "pods/large": large}


async def test_load_at_a_future_revision_is_refused(log: Log) -> None:
    with pytest.raises(ValueError, match="not there yet"):
        await log.load(await put(log, "pods/a") + 1000)


async def test_tail_gives_whole_revisions_in_order(log: Log) -> None:
    start = await log.head()
    first = await put(log, "pods/a", b"1")
    second = await log.commit([Op("pods/a", b"2"), Op("pods/b", b"3"), Op("pods/c", b"4")])
    third = await log.commit([Op("pods/b", None)])
    everything = [
        ("pods/a", b"1", first),
        ("pods/a", b"2", second),
        ("pods/b", b"3", second),
        ("pods/c", b"4", second),
        ("pods/b", None, third),
    ]
    for after, skipped in ((start, 0), (first, 1), (second, 4)):
        versions = await follow(log, after, third)
        assert [(v.key, v.value, v.revision) for v in versions] == everything[skipped:]


async def test_tail_waits_for_what_comes(log: Log) -> None:
    start = await log.head()
    tail: AsyncIterator = log.tail(start)
    waiting = asyncio.ensure_future(anext(tail))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    revision = await put(log, "pods/a")
    batch = await within(waiting)
    assert (batch.revision, [v.key for v in batch.versions]) == (revision, ["pods/a"])
    await tail.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_a_tail_ends_when_the_log_is_closed(log: Log) -> None:
    start = await put(log, "pods/a")

    async def drain() -> None:
        async for _ in log.tail(start):
            pass

    draining = asyncio.create_task(drain())
    await asyncio.sleep(0.05)
    await log.close()
    await within(draining)


async def test_commit_after_close_is_refused(log: Log) -> None:
    await log.close()
    with pytest.raises(Closed):
        await put(log, "pods/a")


async def test_compaction_forgets_history_but_no_state(log: Log) -> None:
    first = await put(log, "pods/a", b"1")
    await put(log, "pods/b", b"1")
    await put(log, "pods/a", b"2")
    middle = await log.commit([Op("pods/b", None)])
    last = await put(log, "pods/c", b"3")
    await log.compact(middle)
    await log.compact(first)  # older than what has been done: nothing happens
    assert await contents(log) == {"pods/a": b"2", "pods/c": b"3"}
    assert await contents(log, middle) == {"pods/a": b"2"}
    assert [v.key for v in await follow(log, middle, last)] == ["pods/c"]
    with pytest.raises(Compacted) as compacted:
        await log.load(first)
    assert await contents(log, compacted.value.oldest)  # from there on it works
    with pytest.raises(Compacted):
        await follow(log, first, last)


async def test_concurrent_compare_and_swap_loses_no_update(log: Log) -> None:
    await put(log, "counter", b"0")

    async def increment() -> None:
        done = 0
        while done < 10:
            [version] = (await log.load()).versions
            assert version.value is not None
            try:
                await put(log, "counter", str(int(version.value) + 1).encode(), version.revision)
                done += 1
            except RevisionConflict:
                await asyncio.sleep(0)

    await asyncio.gather(*[increment() for _ in range(5)])
    assert await contents(log) == {"counter": b"50"}


async def test_concurrent_commits_get_different_revisions_and_a_gapless_tail(log: Log) -> None:
    start = await log.head()
    revisions = await asyncio.gather(*[put(log, f"pods/{n}", expected=0) for n in range(100)])
    assert len(set(revisions)) == 100
    assert [v.revision for v in await follow(log, start, max(revisions))] == sorted(revisions)


async def test_head_is_not_older_than_any_acknowledged_commit(log: Log) -> None:
    for n in range(5):
        revision = await put(log, f"pods/{n}")
        assert await log.head() >= revision


async def test_a_key_with_ttl_is_deleted_at_a_revision_of_its_own(log: Log) -> None:
    kept = await log.commit([Op("events/c", b"short", ttl=1)])
    rewritten = await put(log, "events/c", b"for good")
    written = await log.commit([Op("events/a", b"short", ttl=1), Op("events/b", b"long", ttl=1000), Op("pods/a", b"")])
    assert kept < rewritten < written
    async with asyncio.timeout(SECONDS):
        async for batch in log.tail(written):
            if batch.versions:
                break
    assert [(version.key, version.value) for version in batch.versions] == [("events/a", None)]
    assert batch.versions[0].revision > written
    assert sorted(await contents(log)) == ["events/b", "events/c", "pods/a"]


async def test_a_probe_changes_nothing(log: Log) -> None:
    revision = await put(log, "a")
    for _ in range(3):
        await log.probe()
    assert await log.head() == revision
    assert await contents(log) == {"a": b"v"}
    await log.close()
    with pytest.raises(StoreError):
        await log.probe()
