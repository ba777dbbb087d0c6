"""A cluster that is recorded while it runs, in its own process and loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dray.api.types.core import Pod
from dray.recordings.following import Follower
from dray.recordings.history import History, HistoryFile, RecordedEvent, history_from_bytes
from dray.recordings.recording import Recording
from dray.testing import Cluster
from tests.waiting import SECONDS, wait_until


class LiveRecording:
    """What was recorded so far."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def history(self) -> History:
        return history_from_bytes(self.path.read_bytes())

    def pods(self) -> dict[str, Pod]:
        """The pods as the recording knows them."""
        return {one.metadata.name: one for one in self.history().final_objects() if isinstance(one, Pod)}


@contextmanager
def recorded(cluster: Cluster, path: Path, *, anonymous: bool = False) -> Iterator[LiveRecording]:
    """Follow a cluster until the end of the block."""
    begun, stop = threading.Event(), asyncio.Event()
    files: list[HistoryFile] = []

    def write_to(made: Recording) -> Callable[[Iterable[RecordedEvent]], None]:
        files.append(HistoryFile(str(path), made))
        return files[0].write

    async def follow() -> None:
        async with Follower(cluster._ask(), time.monotonic, anonymous=anonymous).following() as follower:
            follower.begin("2026-01-01T00:00:00Z", "test", write_to)
            begun.set()
            await stop.wait()

    assert cluster._loop is not None
    following = asyncio.run_coroutine_threadsafe(follow(), cluster._loop)
    try:
        wait_until(begun.is_set)
        yield LiveRecording(path)
    finally:
        cluster._loop.call_soon_threadsafe(stop.set)
        following.result(SECONDS)
        files[0].close()
