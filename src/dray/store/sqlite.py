"""The log in a SQLite file: the embedded default. Nothing acknowledged is lost, however the process ends.

A memory log with the disk in between: a commit is checked against everything staged before it, handed to the scribe
(the process that writes the file), and published and acknowledged when its transaction is on the disk. All commits that
come while the scribe is busy share the next transaction, so that many writers cost hardly more than one. Left out:
reading from the file after the start; all reads are the memory log's.
"""

import asyncio
import logging
import marshal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import cast

from msgspec import Struct

from dray.store import scribe as program
from dray.store.errors import Closed, CommitTooLarge, RevisionConflict, Unavailable, Unreadable
from dray.store.journal import MAX_OPS, Journal, remedy
from dray.store.log import KeyVersion, Op
from dray.store.memory import MemoryLog
from dray.store.scribe import LENGTH, Answer, Group, Row, message, number

logger = logging.getLogger(__name__)

_GROUP_COMMITS = 1024
_FORGET_ROWS = 512  # deleted with one group: few enough not to delay it, many enough to keep pace with writes
_MANY = 4  # commits that come together: more will come
_GATHERING_SECONDS = 0.004  # in which they gather, since a transaction costs more than what is in it
_RETRY_SECONDS = 1.0


class Pending(Struct, eq=False):
    """A commit on its way to the disk."""

    versions: list[KeyVersion]
    deadlines: dict[str, float]  # of the keys that have one
    future: asyncio.Future[int]
    awaited: bool  # by a client of another process
    is_probe: bool = False  # the disk is to be written, although there is nothing to commit

    def rows(self) -> list[Row]:
        get, versions = self.deadlines.get, self.versions
        return [(number(v.revision, at), v.key, v.value, v.created, get(v.key)) for at, v in enumerate(versions)]


class SqliteLog(MemoryLog):
    """Made by `SqliteLog.open`."""

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._scribe: Scribe | None = None
        self._replacement: asyncio.Task[None] | None = None
        self._waiting: deque[Pending] = deque()
        self._writing: list[Pending] | None = None  # the group that the scribe has
        self._forgotten: deque[KeyVersion] = deque()  # in order: a deletion must not go before what it deleted
        self._forgetting = 0  # how many of them the scribe has
        self._compacted = 0
        self._is_called = False
        self._unfinished = ""  # why what was begun before closing is not on the disk
        self._idle = asyncio.Event()

    @classmethod
    async def open(cls, path: str | Path, clock: Callable[[], float] = time.time) -> "SqliteLog":
        """Open or create the file. Raises Unreadable."""
        log = cls(await asyncio.to_thread(Journal, Path(path)), clock)
        try:
            # What is read counts only if the scribe, which checks the file meanwhile, finds nothing wrong with it.
            checked, recovered = await asyncio.gather(
                log._start_scribe(undo_after=-1), asyncio.to_thread(log._recover), return_exceptions=True
            )
            if isinstance(checked, OSError):
                raise Unreadable(f"cannot start the process that writes {path}: {checked}")
            if isinstance(checked, str):
                raise Unreadable(f"{path} is damaged: {checked}; {remedy(Path(path))}")
            for failure in (checked, recovered):
                if failure is not None:
                    raise failure
        except BaseException:
            await log._release()
            raise
        log._call()
        log._set_timer()
        return log

    def _recover(self) -> None:
        state = self._state
        for many in self._journal.read():
            state.publish([version for version, _ in many])
            for version, deadline in many:
                if deadline is not None:
                    state.expire_at(version.key, version.revision, deadline)
        compacted = self._journal.compacted()
        state.head = state.staged = max(state.head, compacted)
        self._forget(compacted)  # what a crash in the middle of a compaction left behind

    async def commit(self, ops: Sequence[Op], *, awaited: bool = False) -> int:
        if self._closed:
            raise Closed("the log")
        if len(ops) > MAX_OPS:
            raise CommitTooLarge(f"a commit may have {MAX_OPS} ops, got {len(ops)}")
        try:
            versions = self._state.check(ops)
        except RevisionConflict:
            if self._state.staged > self._state.head:
                await self._submit([])  # whoever reads again must find what was in the way
            raise
        if versions:
            self._state.stage(versions)
        # A commit that changes nothing waits as well: what it saw may not be on the disk yet.
        return await self._submit(versions, ops, awaited=awaited)

    async def probe(self) -> None:
        if self._closed:
            raise Closed("the log")
        await self._submit([], is_probe=True)

    async def compact(self, revision: int) -> None:
        for step in self._state.steps(revision):
            self._forget(step)
            await asyncio.sleep(0)
        self._call()

    def _forget(self, revision: int) -> None:
        self._forgotten.extend(self._state.compact(revision))
        self._compacted = self._state.floor

    async def close(self) -> None:
        """Finish what was begun, then close the file. Raises Unavailable if what was begun is not on the disk."""
        if self._closed:
            return
        await super().close()
        self._call()
        await self._idle.wait()
        while self._replacement is not None and not self._replacement.done():
            await self._replacement
        if self._scribe is None:
            await self._undo()
        await self._release()
        if self._unfinished:
            raise Unavailable(f"the last commits are not in the database: {self._unfinished}")

    async def _undo(self) -> None:
        """What a scribe had that has no successor: what failed does not come back."""
        try:
            await asyncio.to_thread(self._journal.undo_after, self._state.head)
        except (sqlite3.Error, OSError) as error:
            logger.error("commits that failed may be in %s: %s", self._journal.path, error)

    async def _release(self) -> None:
        if self._replacement is not None:
            self._replacement.cancel()
        if self._scribe is not None:
            await self._scribe.stop()
            self._scribe = None
        await asyncio.to_thread(self._journal.close)

    # Groups of commits: the scribe has one at a time.

    def _submit(
        self, versions: list[KeyVersion], ops: Sequence[Op] = (), *, awaited: bool = False, is_probe: bool = False
    ) -> asyncio.Future[int]:
        deadlines = {}
        for op in ops:
            if op.ttl is not None and op.value is not None:
                deadlines[op.key] = self._clock() + op.ttl
        future = self._loop.create_future()
        self._waiting.append(Pending(versions, deadlines, future, awaited, is_probe))
        if not self._is_called:
            self._call()
        return future

    def _call(self, seconds: float = 0.0) -> None:
        """Send the next group later, and not before what runs now is done: what is committed meanwhile goes along."""
        self._idle.clear()
        if not self._is_called:
            self._is_called = True
            self._loop.call_later(seconds, self._send)

    def _send(self) -> None:
        self._is_called = False
        if self._writing is not None or self._scribe is None:
            return  # when it has answered, or is there again, we are called
        group = [self._waiting.popleft() for _ in range(min(_GROUP_COMMITS, len(self._waiting)))]
        rows = [row for pending in group for row in pending.rows()]
        self._forgetting = min(_FORGET_ROWS, len(self._forgotten))
        if rows or self._forgetting or any(pending.is_probe for pending in group):
            forgotten = [(version.revision, version.key) for version in islice(self._forgotten, self._forgetting)]
            self._writing = group
            self._scribe.send((rows, forgotten, self._compacted))
        else:
            self._acknowledge(group)
            self._idle.set()

    def _answered(self, answer: Answer) -> None:
        """The group is on the disk: publish it, then acknowledge it. Or it is not, for some reason."""
        reason, failure = answer
        if failure:
            logger.warning("the write-ahead log of %s grows: checkpoint: %s", self._journal.path, failure)
        if reason is not None:
            self._failed(reason)
            return
        group, self._writing = self._writing or [], None
        for _ in range(self._forgetting):
            self._forgotten.popleft()
        if versions := [version for pending in group for version in pending.versions]:
            self._state.publish(versions)
            for pending in group:
                for key, deadline in pending.deadlines.items():
                    self._state.expire_at(key, pending.versions[0].revision, deadline)
                    self._set_timer()
            self._announce(versions)
        self._acknowledge(group)
        self._call(_GATHERING_SECONDS if len(group) >= _MANY else 0.0)

    def _acknowledge(self, group: Sequence[Pending]) -> None:
        # A writer that lost to another one comes first, or one that writes again at once would win every time; then
        # those whom clients wait for, who send nothing until they are answered, while there is work enough in this
        # process.
        for pending in sorted(group, key=lambda pending: (bool(pending.versions), not pending.awaited)):
            versions, future = pending.versions, pending.future
            if not future.done():
                future.set_result(versions[0].revision if versions else self._state.head)

    def _failed(self, reason: str) -> None:
        """What the scribe had is not on the disk, and what waited stands on it."""
        logger.error("cannot write to %s: %s", self._journal.path, reason)
        group = [*(self._writing or ()), *self._waiting]
        self._writing = None
        self._waiting.clear()
        self._state.unstage()
        if self._closed and any(pending.versions for pending in group):
            self._unfinished = reason
        for pending in group:
            if not pending.future.done():
                pending.future.set_exception(Unavailable(f"cannot write to the database: {reason}"))
        self._idle.set()
        if self._forgotten:
            self._loop.call_later(_RETRY_SECONDS, self._call)

    # The scribe is replaced if it ends.

    async def _start_scribe(self, undo_after: int) -> str | None:
        """Returns what the scribe finds wrong with the file, and does not use it then. Raises OSError."""
        scribe, problem = await Scribe.start(self._journal, undo_after, self._answered, self._lost)
        if problem is None:
            self._scribe = scribe
        else:
            await scribe.stop()
        return problem

    def _lost(self) -> None:
        if self._scribe is not None:
            lost, self._scribe = self._scribe, None
            self._failed("the process that writes it ended")
            self._replacement = self._loop.create_task(self._replace(lost))

    async def _replace(self, lost: "Scribe") -> None:
        await lost.stop()
        while self._scribe is None:
            if self._closed and self._idle.is_set():
                return  # nobody waits for a successor
            await asyncio.sleep(_RETRY_SECONDS)
            try:
                problem = await self._start_scribe(undo_after=self._state.head)
            except OSError as error:
                problem = str(error)
            if problem is not None:
                self._failed(f"the process that writes it cannot be started: {problem}")
        self._call()


class Scribe(asyncio.Protocol):
    """Our end of the process that writes the file: see dray.store.scribe. Made by `Scribe.start`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        answered: Callable[[Answer], None],
        lost: Callable[[], None],
    ) -> None:
        self._process = process
        self._answered = answered
        self._lost = lost
        self._transport: asyncio.WriteTransport
        self._received = b""
        self._begun: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._is_stopped = False

    @classmethod
    async def start(
        cls,
        journal: Journal,
        undo_after: int,
        answered: Callable[[Answer], None],
        lost: Callable[[], None],
    ) -> tuple["Scribe", str | None]:
        """Start the process, and learn what keeps it from writing, None if nothing does. Raises OSError.

        It first deletes all later than `undo_after`; if that is -1, it checks the whole file instead.
        """
        process, connection = await asyncio.to_thread(_spawn, journal, undo_after)
        loop = asyncio.get_running_loop()
        _, scribe = await loop.create_unix_connection(lambda: cls(process, answered, lost), sock=connection)
        try:
            return scribe, (await scribe._begun)[0]
        except BaseException:
            await scribe.stop()
            raise

    def send(self, group: Group) -> None:
        self._transport.write(message(group))

    async def stop(self) -> None:
        self._is_stopped = True
        self._transport.close()
        await asyncio.to_thread(self._process.wait)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        content = memoryview(self._received)[LENGTH.size :]
        if len(content) and len(content) == LENGTH.unpack_from(self._received)[0]:  # there is one answer at a time
            answer = marshal.loads(content)
            self._received = b""
            if self._begun.done():
                self._answered(answer)
            else:
                self._begun.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._begun.done():
            self._begun.set_exception(OSError("it ended at once"))
        elif not self._is_stopped:
            self._lost()


def _spawn(journal: Journal, undo_after: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process has the lock too, so that nobody opens the file while it writes, even if we are killed."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-S", program.__file__, str(journal.path), str(undo_after)]
    with theirs:
        try:
            process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                pass_fds=(journal.lock,),
                process_group=0,  # a terminal interrupts a whole group
            )
        except BaseException:
            ours.close()
            raise
    return process, ours
