"""A cluster that is recorded while it runs, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dray.api.types.core import Pod
from dray.client.config import load
from dray.client.http import Http
from dray.sim.following import Follower
from dray.sim.history import Event, History, HistoryFile, history_from_bytes
from dray.sim.recording import Recording
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
def recorded(kubeconfig: Path, path: Path, *, anonymous: bool = False) -> Iterator[LiveRecording]:
    """Follow a cluster until the end of the block."""
    begun = threading.Event()
    stopping: list[Callable[[], object]] = []

    async def follow() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stopping.append(lambda: loop.call_soon_threadsafe(stop.set))
        async with Http(load(str(kubeconfig), "")) as client:
            follower = Follower(client, time.monotonic, anonymous=anonymous)
            files: list[HistoryFile] = []

            def write_to(made: Recording) -> Callable[[Iterable[Event]], None]:
                files.append(HistoryFile(str(path), made))
                return files[0].write

            async with follower.following():
                follower.begin("2026-01-01T00:00:00Z", "test", write_to)
                begun.set()
                await stop.wait()
            files[0].close()
        await asyncio.sleep(0.05)  # connections need turns of the loop to close

    thread = threading.Thread(target=lambda: asyncio.run(follow()))
    thread.start()
    try:
        wait_until(begun.is_set)
        yield LiveRecording(path)
    finally:
        stopping[0]()
        thread.join(SECONDS)
