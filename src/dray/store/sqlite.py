"""The log in a SQLite file: the embedded default. Nothing acknowledged is lost, however the process ends.

A memory log with the disk in between: a commit is checked against everything staged before it, queued for one writer
thread, and published and acknowledged when its transaction is on the disk. All commits that queue up while the disk is
busy share the next transaction, so that many writers cost hardly more than one. Left out: reading from the file after
the start; all reads are the memory log's.
"""

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from msgspec import Struct

from dray.store.errors import Closed, Conflict, TooLarge, Unavailable
from dray.store.journal import MAX_OPS, Journal, Row
from dray.store.log import Op, Version
from dray.store.memory import MemoryLog

logger = logging.getLogger(__name__)

_GROUP_COMMITS = 1024
_FORGET_ROWS = 512  # deleted with one group: few enough not to delay it, many enough to keep pace with writes
_CHECKPOINT_BYTES = 32 << 20


class Pending(Struct, eq=False):
    """A commit on its way to the disk. Commits of an older epoch stood on one that failed."""

    rows: list[Row]
    future: asyncio.Future[int]
    epoch: int


class Compaction(Struct):
    """Versions to forget, and up to which revision that is everything."""

    versions: list[Version]
    revision: int


Group = list[Pending]


class SqliteLog(MemoryLog):
    """Made by `SqliteLog.open`."""

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._epoch = 0
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(journal, self._written, self._failed, self._loop)

    @classmethod
    async def open(cls, path: str | Path, clock: Callable[[], float] = time.time) -> "SqliteLog":
        """Open or create the file. Raises Unreadable."""
        journal = await asyncio.to_thread(Journal, Path(path))
        try:
            log = cls(journal, clock)
            await asyncio.to_thread(log._recover, journal)
        except BaseException:
            journal.close()
            raise
        log._writer.start()
        log._set_timer()
        return log

    def _recover(self, journal: Journal) -> None:
        state = self._state
        for version, deadline in journal.read():
            state.publish((version,))
            if deadline is not None:
                state.expire_at(version.key, version.revision, deadline)
        compacted = journal.compacted()
        state.head = state.staged = max(state.head, compacted)
        self._forget(compacted)  # what a crash in the middle of a compaction left behind

    async def commit(self, ops: Sequence[Op]) -> int:
        if self._closed:
            raise Closed("the log")
        if len(ops) > MAX_OPS:
            raise TooLarge(f"a commit may have {MAX_OPS} ops, got {len(ops)}")
        try:
            versions = self._state.check(ops)
        except Conflict:
            if self._state.staged > self._state.head:
                await self._submit([])  # whoever reads again must find what was in the way
            raise
        if versions:
            self._state.stage(versions)
        # A commit that changes nothing waits as well: what it saw may not be on the disk yet.
        return await self._submit(self._rows(ops, versions))

    async def _submit(self, rows: list[Row]) -> int:
        future: asyncio.Future[int] = self._loop.create_future()
        self._writer.submit(Pending(rows, future, self._epoch))
        return await future

    def _rows(self, ops: Sequence[Op], versions: Sequence[Version]) -> list[Row]:
        if all(op.ttl is None for op in ops):
            return [(version, None) for version in versions]
        now = self._clock()
        deadlines = {op.key: now + op.ttl for op in ops if op.ttl is not None and op.value is not None}
        return [(version, deadlines.get(version.key)) for version in versions]

    async def compact(self, revision: int) -> None:
        self._forget(revision)

    def _forget(self, revision: int) -> None:
        if forgotten := self._state.compact(revision):
            self._writer.submit(Compaction(forgotten, self._state.floor))

    async def close(self) -> None:
        """Finish what was begun, then close the file."""
        if self._closed:
            return
        await super().close()
        await asyncio.to_thread(self._writer.stop)

    def _written(self, group: Group) -> None:
        """In the event loop, in order: publish, then acknowledge."""
        state = self._state
        rows = [row for pending in group for row in pending.rows]
        if rows:
            versions = [version for version, _ in rows]
            state.publish(versions)
            for version, deadline in rows:
                if deadline is not None:
                    state.expire_at(version.key, version.revision, deadline)
                    self._set_timer()
            self._announce(versions)
        # Who lost to another writer comes first, or one that writes again at once would win every time.
        for pending in sorted(group, key=lambda pending: bool(pending.rows)):
            if not pending.future.done():
                pending.future.set_result(pending.rows[0][0].revision if pending.rows else state.head)

    def _failed(self, group: Group, error: Exception) -> None:
        if group[0].epoch == self._epoch:
            self._epoch += 1
            self._state.unstage()
        for pending in group:
            if not pending.future.done():
                pending.future.set_exception(Unavailable(f"cannot write to the database: {error}"))


class Writer:
    """The thread that writes groups of commits, and forgets and checkpoints in between."""

    def __init__(
        self,
        journal: Journal,
        written: Callable[[Group], None],
        failed: Callable[[Group, Exception], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._journal = journal
        self._written = written
        self._failed = failed
        self._loop = loop
        self._queue: queue.SimpleQueue[Pending | Compaction | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="dray-store-writer", daemon=True)
        self._forgotten: deque[Version] = deque()
        self._compacted = 0
        self._broken = -1  # the epoch of the last failure
        self._unsaved = journal.unsaved()  # bytes in the write-ahead log since the last checkpoint
        self._checkpoint: threading.Thread | None = None

    def start(self) -> None:
        self._thread.start()

    def submit(self, work: Pending | Compaction) -> None:
        self._queue.put(work)

    def stop(self) -> None:
        """Write what is queued and close the file; blocks."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        running = True
        while running:
            group, running = self._take()
            self._write(group)
            self._save()
        if self._checkpoint is not None:
            self._checkpoint.join()
        self._journal.close()

    def _take(self) -> tuple[Group, bool]:
        """The commits that are waiting; waits for one unless there is something to forget. False: stop."""
        group: Group = []
        block = not self._forgotten
        while len(group) < _GROUP_COMMITS:
            try:
                work = self._queue.get(block)
            except queue.Empty:
                break
            block = False
            if work is None:
                return group, False
            if isinstance(work, Compaction):
                self._forgotten.extend(work.versions)
                self._compacted = work.revision
            else:
                group.append(work)
        return group, True

    def _write(self, group: Group) -> None:
        stale = [pending for pending in group if pending.epoch <= self._broken]
        if stale:
            self._tell(self._failed, stale, Unavailable("an earlier write failed"))
            group = [pending for pending in group if pending.epoch > self._broken]
        rows = list(chain.from_iterable(pending.rows for pending in group))
        forgotten = [self._forgotten.popleft() for _ in range(min(_FORGET_ROWS, len(self._forgotten)))]
        try:
            if rows or forgotten:
                self._journal.write(rows, forgotten, self._compacted)
        except Exception as error:  # whatever it is, the writers wait for an answer
            logger.error("cannot write to %s: %s", self._journal.path, error)
            self._forgotten.extendleft(reversed(forgotten))
            if group:
                self._broken = group[0].epoch
                self._tell(self._failed, group, error)
            else:
                time.sleep(1)  # there is only something to forget, and it is not urgent
            return
        self._unsaved += sum(len(version.value or b"") + 100 for version, _ in rows)
        if group:
            self._tell(self._written, group)

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def _save(self) -> None:
        """Checkpoint beside the writing; only the remainder, which lets the write-ahead log start over, is done here."""
        if self._checkpoint is not None:
            if not self._checkpoint.is_alive():
                self._checkpoint = None
                self._journal.checkpoint(own_connection=False)
        elif self._unsaved > _CHECKPOINT_BYTES:
            self._unsaved = 0
            self._checkpoint = threading.Thread(
                target=self._journal.checkpoint,
                kwargs={"own_connection": True},
                name="dray-store-checkpoint",
                daemon=True,
            )
            self._checkpoint.start()
