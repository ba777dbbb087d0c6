"""Log in a SQLite file, the default backend. No acknowledged commit is lost, however the process ends.

It is a memory log that writes to disk before publishing. A commit is checked against everything staged before it,
sent to the scribe (the process that writes the file), and published and acknowledged when its transaction is on
disk. Commits that arrive while the scribe is busy share the next transaction, so many writers cost little more
than one. The file is read only at startup; all later reads come from memory.
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
from dray.store.scribe import LENGTH, Group, LogRow, ScribeReply, message, number

logger = logging.getLogger(__name__)

_GROUP_COMMITS = 1024
_FORGET_ROWS = 512  # rows deleted with one group: few enough not to delay it, enough to keep pace with writes
_MANY = 4  # commits in a group from which more are expected to arrive soon
_GATHERING_SECONDS = 0.004  # time to collect further commits, because a transaction costs more than its content
_RETRY_SECONDS = 1.0


class Pending(Struct, eq=False):
    """A commit that is not on disk yet."""

    versions: list[KeyVersion]
    deadlines: dict[str, float]  # key → deadline, for keys with a TTL
    future: asyncio.Future[int]
    awaited: bool  # whether a client in another process waits for it
    is_probe: bool = False  # whether to test writing to disk although nothing is to be committed

    def rows(self) -> list[LogRow]:
        get, versions = self.deadlines.get, self.versions
        return [(number(v.revision, at), v.key, v.value, v.created, get(v.key)) for at, v in enumerate(versions)]


class SqliteLog(MemoryLog):
    """Log in a SQLite file. Created by `SqliteLog.open`."""

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._scribe: Scribe | None = None
        self._replacement: asyncio.Task[None] | None = None
        self._waiting: deque[Pending] = deque()
        self._writing: list[Pending] | None = None  # group that the scribe is writing
        self._forgotten: deque[KeyVersion] = deque()  # in order: a deletion must not be removed before what it deleted
        self._forgetting = 0  # number of them that the scribe is deleting
        self._compacted = 0
        self._is_called = False
        self._unfinished = ""  # why commits made before closing are not on disk
        self._idle = asyncio.Event()

    @classmethod
    async def open(cls, path: str | Path, clock: Callable[[], float] = time.time) -> "SqliteLog":
        """Open or create the file. Returns the log. `clock` returns seconds since 1970, for deadlines.

        Raises Unreadable if the file is damaged, in use or of another program, or if the writing process cannot be
        started.
        """
        log = cls(await asyncio.to_thread(Journal, Path(path)), clock)
        try:
            # The content is used only if the scribe, which checks the file at the same time, finds no damage.
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
        self._forget(compacted)  # finish a compaction that was interrupted by a crash

    async def commit(self, ops: Sequence[Op], *, awaited: bool = False) -> int:
        if self._closed:
            raise Closed("the log")
        if len(ops) > MAX_OPS:
            raise CommitTooLarge(f"a commit may have {MAX_OPS} ops, got {len(ops)}")
        try:
            versions = self._state.check(ops)
        except RevisionConflict:
            if self._state.staged > self._state.head:
                await self._submit([])  # wait until the conflicting change is visible, so that the caller can read it
            raise
        if versions:
            self._state.stage(versions)
        # A commit that changes nothing also waits, because the state that it saw may not be on disk yet.
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
        """Write the commits made so far, then close the file. Nothing happens if the log is closed already.

        Raises Unavailable if commits could not be written.
        """
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
        """Delete rows that the last scribe may have written for failed commits, so that they do not reappear."""
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

    # Groups of commits: the scribe writes one at a time.

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
        """Schedule sending the next group after `seconds`, at the earliest after the current callback."""
        self._idle.clear()
        if not self._is_called:
            self._is_called = True
            self._loop.call_later(seconds, self._send)

    def _send(self) -> None:
        self._is_called = False
        if self._writing is not None or self._scribe is None:
            return  # called again after the answer, or when a new scribe has started
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

    def _answered(self, answer: ScribeReply) -> None:
        """Handle the scribe's answer: publish and acknowledge the group that is on disk, or fail it."""
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
        # Commits without changes come first: they include writers that had a conflict, which would otherwise lose to
        # a fast writer every time. Then come awaited commits, because their clients are idle until they get an answer,
        # while this process has other work.
        for pending in sorted(group, key=lambda pending: (bool(pending.versions), not pending.awaited)):
            versions, future = pending.versions, pending.future
            if not future.done():
                future.set_result(versions[0].revision if versions else self._state.head)

    def _failed(self, reason: str) -> None:
        """Fail the group of the scribe, and all waiting commits, which depend on it."""
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

    # A scribe that ends is replaced.

    async def _start_scribe(self, undo_after: int) -> str | None:
        """Start a scribe. Returns the problem it finds in the file (then it is not used), or None. Raises OSError."""
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
                return  # no commits need a new scribe
            await asyncio.sleep(_RETRY_SECONDS)
            try:
                problem = await self._start_scribe(undo_after=self._state.head)
            except OSError as error:
                problem = str(error)
            if problem is not None:
                self._failed(f"the process that writes it cannot be started: {problem}")
        self._call()


class Scribe(asyncio.Protocol):
    """Client side of the process that writes the file (dray.store.scribe). Created by `Scribe.start`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        answered: Callable[[ScribeReply], None],
        lost: Callable[[], None],
    ) -> None:
        self._process = process
        self._answered = answered
        self._lost = lost
        self._transport: asyncio.WriteTransport
        self._received = b""
        self._begun: asyncio.Future[ScribeReply] = asyncio.get_running_loop().create_future()
        self._is_stopped = False

    @classmethod
    async def start(
        cls,
        journal: Journal,
        undo_after: int,
        answered: Callable[[ScribeReply], None],
        lost: Callable[[], None],
    ) -> tuple["Scribe", str | None]:
        """Start the process. Returns the scribe, and the problem that prevents writing or None. Raises OSError.

        The process first deletes all rows after revision `undo_after`; if that is -1, it checks the whole file
        instead.
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
        """Send a group of commits to the process."""
        self._transport.write(message(group))

    async def stop(self) -> None:
        """Close the connection and wait until the process has ended."""
        self._is_stopped = True
        self._transport.close()
        await asyncio.to_thread(self._process.wait)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        content = memoryview(self._received)[LENGTH.size :]
        if len(content) and len(content) == LENGTH.unpack_from(self._received)[0]:  # only one answer is pending
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
    """Start the scribe process. Returns the process and the connected socket. Raises OSError if it cannot be started.

    The process inherits the lock, so no other process opens the file while it writes, even if this process is killed.
    """
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-S", program.__file__, str(journal.path), str(undo_after)]
    with theirs:
        try:
            process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                pass_fds=(journal.lock,),
                process_group=0,  # a separate group, because Ctrl+C in a terminal interrupts a whole group
            )
        except BaseException:
            ours.close()
            raise
    return process, ours
