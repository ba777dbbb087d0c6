"""The store: acknowledged durable writes beside writes in memory, reopening, and watch fan-out."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from dray.store import Cache, Log, MemoryLog, Op, SqliteLog, StoreError, StoreEvent

OBJECT = b"x" * 2600  # a pod
WRITERS = 64
OBJECTS = 100_000
WATCHERS = 50


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="dray-bench-") as directory:
        asyncio.run(_measure(Path(directory)))


async def _measure(directory: Path) -> None:
    await _commit_and_watch()
    memory = await _write(MemoryLog(), OBJECTS)
    sqlite = await _write(await SqliteLog.open(directory / "store.db"), OBJECTS)
    lone = await _write(await SqliteLog.open(directory / "lone.db"), 500, writers=1)
    disk = _sync_rate(directory / "plain")
    print(f"acknowledged writes/s, {WRITERS} writers: SQLite {sqlite:,.0f}, memory {memory:,.0f}")
    print(f"acknowledged writes/s, 1 writer: SQLite {lone:,.0f}, write and fdatasync of a plain file {disk:,.0f}")
    await _reopen(directory / "store.db")
    await _fan_out()


async def _commit_and_watch() -> None:
    """One op in memory, told to one subscriber."""
    cache = await Cache.open(MemoryLog())
    told = 0

    def deliver(events: Sequence[StoreEvent]) -> None:
        nonlocal told
        told += len(events)

    subscription = cache.subscribe("pods/", 0, deliver, _unexpected)
    keys = [f"pods/ns{n % 10}/pod-{n % 5000}" for n in range(50_000)]
    start = time.perf_counter()
    for key in keys:
        await cache.commit([Op(key, OBJECT)])
    seconds = time.perf_counter() - start
    subscription.close()
    assert told == len(keys)
    print(f"commit in memory with watch delivery: {seconds / len(keys) * 1e6:.1f} µs")
    await cache.close()


async def _write(log: Log, count: int, writers: int = WRITERS) -> float:
    cache = await Cache.open(log)

    async def write(writer: int) -> None:
        for n in range(count // writers):
            await cache.commit([Op(f"pods/ns{writer}/pod-{n}", OBJECT, 0)])

    start = time.perf_counter()
    await asyncio.gather(*[write(writer) for writer in range(writers)])
    seconds = time.perf_counter() - start
    await cache.close()
    await log.close()
    return count / seconds


def _sync_rate(path: Path) -> float:
    """What the disk itself can do, one write after the other."""
    count = 200
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    start = time.perf_counter()
    for _ in range(count):
        os.write(descriptor, OBJECT)
        os.fdatasync(descriptor)
    seconds = time.perf_counter() - start
    os.close(descriptor)
    return count / seconds


async def _reopen(path: Path) -> None:
    start = time.perf_counter()
    size = len(path.read_bytes())  # noqa: ASYNC240  # nothing else runs
    plain = time.perf_counter() - start
    start = time.perf_counter()
    log = await SqliteLog.open(path)
    cache = await Cache.open(log)
    seconds = time.perf_counter() - start
    print(f"reopen {cache.count('pods/'):,} objects: {seconds:.2f} s, reading the {size >> 20} MB alone {plain:.2f} s")
    await cache.close()
    await log.close()


async def _fan_out() -> None:
    """One writer; watchers in tasks of their own, as HTTP responses are, beside subscribers."""
    count = 2000
    cache = await Cache.open(MemoryLog())
    told = 0

    def deliver(events: Sequence[StoreEvent]) -> None:
        nonlocal told
        told += len(events)

    async def consume() -> None:
        seen, watch = 0, cache.watch("pods/", cache.revision)
        while seen < count:
            seen += len(await watch.next())
        watch.close()

    consumers = [asyncio.create_task(consume()) for _ in range(WATCHERS)]
    await asyncio.sleep(0)
    watched = await _write_yielding(cache, count)
    await asyncio.gather(*consumers)
    subscriptions = [cache.subscribe("pods/", cache.revision, deliver, _unexpected) for _ in range(WATCHERS)]
    subscribed = await _write_yielding(cache, count)
    for subscription in subscriptions:
        subscription.close()
    assert told == count * WATCHERS
    alone = await _write_yielding(cache, count)
    print(
        f"writes/s, 1 writer and {WATCHERS} watchers: {watched:,.0f} ({watched * WATCHERS:,.0f} events/s), "
        f"{WATCHERS} subscribers: {subscribed:,.0f}, nobody: {alone:,.0f}"
    )
    await cache.close()


async def _write_yielding(cache: Cache, count: int) -> float:
    start = time.perf_counter()
    for n in range(count):
        await cache.commit([Op(f"pods/default/pod-{n % 100}", OBJECT)])
        await asyncio.sleep(0)  # let the watchers run after each write
    return count / (time.perf_counter() - start)


def _unexpected(reason: StoreError) -> None:
    raise reason
