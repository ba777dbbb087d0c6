"""The agent's side of a command in a container, or of its console: terminal or pipes, and the guardian's socket.

The event loop reads and writes the descriptors, without threads. Left out: entering the container, which the guardian
does (`sessions`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import pty
import socket
import struct
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from dray.node.runtime import ExecError

_CHUNK_BYTES = 65536
_CONNECT_SECONDS = 10.0
_CONNECT_AGAIN_SECONDS = 0.01
LOST_CODE = 137  # as after SIGKILL: the command's exit code is lost


async def run_command(directory: Path, argv: Sequence[str], *, tty: bool, stdin: bool) -> GuardedSession:
    """Start a command in a container through the guardian of `directory`. Returns the session with its streams.

    Raises `ExecError` if the command is empty or invalid, or the guardian does not answer.
    """
    if not argv or any("\0" in word for word in argv):
        raise ExecError("expected a command without NUL characters")
    ends = _Terminal() if tty else _Pipes(stdin)
    return GuardedSession(await _ask(directory, {"argv": [*argv], "tty": tty}, ends), ends)


async def attach(directory: Path, *, stdin: bool) -> AttachedSession:
    """Attach to the input and output of a running container. Returns the session.

    `directory` is that of the container's attempt. Raises ExecError if the guardian does not answer. With `stdin` the
    session can also send input.
    """
    ends = _Pipes(stdin)
    return AttachedSession(await _ask(directory, {"attach": True, "tty": False, "stdin": stdin}, ends), ends)


async def _ask(directory: Path, words: Mapping[str, object], ends: _Ends) -> socket.socket:
    """Connect to the guardian and send a request with the command's ends of the streams. Returns the connection.

    Raises ExecError if the guardian does not answer. `directory` is that of the container's attempt.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        await _connect(connection, directory)
        request = json.dumps(words).encode() + b"\n"
        sent = socket.send_fds(connection, [request], ends.theirs)
        if sent < len(request):
            await asyncio.get_running_loop().sock_sendall(connection, request[sent:])
    except OSError as error:
        connection.close()
        ends.close()
        raise ExecError(f"the container's guardian does not answer: {error}") from error
    finally:
        ends.give_away()
    return connection


async def _connect(connection: socket.socket, directory: Path) -> None:
    here = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            while True:
                try:
                    return connection.connect(f"/proc/self/fd/{here}/exec")
                except BlockingIOError:  # many clients at once: the guardian accepts one at a time
                    await asyncio.sleep(_CONNECT_AGAIN_SECONDS)
    finally:
        os.close(here)


class _Ends:
    """Descriptors of a command's streams: `theirs` are passed to the command, `ours` (by stream name) stay here."""

    def __init__(self) -> None:
        self.theirs: list[int] = []
        self.ours: dict[str, int] = {}

    def give_away(self) -> None:
        """Close our copies of the descriptors that the command received."""
        for descriptor in self.theirs:
            os.close(descriptor)
        self.theirs = []

    def close(self, *streams: str) -> None:
        for descriptor in {self.ours.pop(name) for name in streams or [*self.ours] if name in self.ours}:
            if descriptor not in self.ours.values():
                os.close(descriptor)


class _Pipes(_Ends):
    def __init__(self, stdin: bool) -> None:
        super().__init__()
        if stdin:
            reads, writes = os.pipe()
            self.theirs.append(reads)
            self.ours["stdin"] = writes
        else:
            self.theirs.append(os.open(os.devnull, os.O_RDONLY))
        for name in ("stdout", "stderr"):
            reads, writes = os.pipe()
            self.theirs.append(writes)
            self.ours[name] = reads
        for descriptor in self.ours.values():
            os.set_blocking(descriptor, False)


class _Terminal(_Ends):
    def __init__(self) -> None:
        super().__init__()
        ours, theirs = pty.openpty()
        self.theirs.append(theirs)
        self.ours |= {"stdin": ours, "stdout": ours}
        os.set_blocking(ours, False)


class GuardedSession:
    """An `ExecSession` that runs over the guardian's socket."""

    def __init__(self, connection: socket.socket, ends: _Ends) -> None:
        self._connection = connection
        self._ends = ends
        self._told = b""
        self._code: int | None = None
        self.failure = ""

    async def read(self, stream: str = "stdout") -> bytes:
        while (descriptor := self._ends.ours.get(stream)) is not None:
            try:
                return os.read(descriptor, _CHUNK_BYTES)
            except BlockingIOError:
                await ready(descriptor, writing=False)
            except OSError as error:
                if error.errno != errno.EIO:  # EIO: the command has closed its terminal
                    raise
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        while data and (descriptor := self._ends.ours.get("stdin")) is not None:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                await ready(descriptor, writing=True)
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.EIO):
                    raise
                return

    def close_stdin(self) -> None:
        self._ends.close("stdin")

    def resize(self, width: int, height: int) -> None:
        if "stderr" not in self._ends.ours and "stdout" in self._ends.ours:
            size = struct.pack("HHHH", max(0, min(height, 65535)), max(0, min(width, 65535)), 0, 0)
            fcntl.ioctl(self._ends.ours["stdout"], termios.TIOCSWINSZ, size)

    async def wait(self) -> int:
        while self._code is None:
            data = await self._hear()
            self._told += data
            *lines, self._told = self._told.split(b"\n")
            for line in lines:
                answer = json.loads(line)
                self.failure = answer.get("failed", self.failure)
                self._code = answer.get("code", self._code)
            if not data and self._code is None:
                self._code = LOST_CODE
        return self._code

    async def _hear(self) -> bytes:
        while self._connection.fileno() >= 0:
            try:
                return self._connection.recv(_CHUNK_BYTES)
            except BlockingIOError:
                await ready(self._connection.fileno(), writing=False)
            except OSError:
                break
        return b""

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # wakes tasks that still wait for an answer
        self._connection.close()
        self._ends.close()


class AttachedSession(GuardedSession):
    """A session with a container that runs independently: closing the session does not end the container."""

    def resize(self, width: int, height: int) -> None:
        size = [max(0, min(width, 65535)), max(0, min(height, 65535))]
        with contextlib.suppress(OSError):  # the container has ended
            self._connection.send(json.dumps({"resize": size}).encode() + b"\n")


async def ready(descriptor: int, *, writing: bool) -> None:
    """Wait until a descriptor can be read or written.

    Waits on a duplicate, so that a second waiter or a close of the original does not interfere.
    """
    loop = asyncio.get_running_loop()
    own = os.dup(descriptor)
    done = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    add(own, lambda: None if done.done() else done.set_result(None))
    try:
        await done
    finally:
        remove(own)
        with contextlib.suppress(OSError):
            os.close(own)
