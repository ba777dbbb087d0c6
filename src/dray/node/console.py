"""Standard input and output of a container for attached clients: part of the container's guardian.

Each client passes three descriptors and keeps a connection open: its input goes to the container, and the container's
output goes to every client. While a client has not taken all output given to it, no more output is read from the
container, so that nothing is lost and no backlog grows. A client that disconnects changes nothing, except that
`stdinOnce` closes the container's input with it. `shim` loads this module on first use. Uses only the standard
library.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import struct
import termios
import time

MYPY = False
if MYPY:  # for the type checker alone: importing `typing` would make every start slower
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    class Poller(Protocol):
        def on(self, descriptor: int, act: Callable[[int], None], event: int = select.POLLIN) -> None: ...

        def off(self, descriptor: int) -> None: ...


_CHUNK_BYTES = 65536
_FAREWELL_SECONDS = 5.0  # for clients to take waiting output after the container has ended


class ConsoleClient:
    """An attached client. `waiting` holds by stream the output that the client has not taken yet."""

    def __init__(self, connection: Any, descriptors: Sequence[int], sends: bool) -> None:
        self.connection = connection
        self.stdin = descriptors[0] if sends else None
        self.outputs = {"stdout": descriptors[1], "stderr": descriptors[2]}
        self.waiting = {"stdout": b"", "stderr": b""}
        self.heard = b""
        for descriptor in descriptors:
            os.set_blocking(descriptor, False)
        if not sends:
            os.close(descriptors[0])

    def flush(self) -> None:
        """Write as much waiting output as the client accepts now. Raises OSError if the client closed its end."""
        for stream, descriptor in self.outputs.items():
            with contextlib.suppress(BlockingIOError):
                while self.waiting[stream]:
                    written = os.write(descriptor, self.waiting[stream])
                    self.waiting[stream] = self.waiting[stream][written:]

    @property
    def is_behind(self) -> bool:
        return any(self.waiting.values())


class Console:
    """The clients that are attached to a guardian's container, and the input that waits for the container."""

    def __init__(self, poller: Poller, stdin: int | None, once: bool, tty: bool) -> None:
        self._poller = poller
        self._stdin = stdin
        self._once = once
        self._tty = tty
        self._input = b""  # input that the container has not taken yet
        self._clients: list[ConsoleClient] = []

    def attach(self, connection: Any, descriptors: Sequence[int], sends: bool) -> None:
        connection.settimeout(None)
        connection.setblocking(False)
        client = ConsoleClient(connection, descriptors, sends)
        self._clients.append(client)
        self._poller.on(connection.fileno(), lambda _: self._hear(client))
        if client.stdin is not None:
            self._poller.on(client.stdin, self._taker(client))

    # Output

    @property
    def is_behind(self) -> bool:
        """Whether a client must take waiting output before more output is read from the container.

        Returns False without clients.
        """
        return any(client.is_behind for client in self._clients)

    def write(self, stream: str, data: bytes) -> None:
        for client in [*self._clients]:
            client.waiting[stream] += data
            self._flush(client)

    def _flush(self, client: ConsoleClient) -> None:
        try:
            client.flush()
        except OSError:
            self._detach(client)
            return
        for name, descriptor in client.outputs.items():
            if client.waiting[name]:
                self._poller.on(descriptor, lambda _: self._flush(client), select.POLLOUT)
            else:
                self._poller.off(descriptor)

    def finish(self, code: int) -> None:
        """Send each client the exit code and detach the client, after up to 5 s for it to take waiting output."""
        deadline = time.monotonic() + _FAREWELL_SECONDS
        for client in [*self._clients]:
            while client in self._clients and client.is_behind and time.monotonic() < deadline:
                select.select([], [fd for name, fd in client.outputs.items() if client.waiting[name]], [], 0.1)
                self._flush(client)
            with contextlib.suppress(OSError):
                client.connection.send(json.dumps({"code": code}).encode() + b"\n")
            if client in self._clients:
                self._detach(client)

    # Input

    def _take(self, client: ConsoleClient) -> None:
        """Read input from a client, unless earlier input still waits for the container."""
        assert client.stdin is not None
        if self._input:
            return
        try:
            data = os.read(client.stdin, _CHUNK_BYTES)
        except OSError:
            data = b""
        if data and self._stdin is not None:
            self._input = data
            self._pass_on()
        elif not data:
            self._no_more(client)

    def _pass_on(self) -> None:
        """Write waiting input to the container; stop reading from clients while the container does not take it."""
        assert self._stdin is not None
        try:
            while self._input:
                self._input = self._input[os.write(self._stdin, self._input) :]
        except BlockingIOError:
            self._listen(False)
            self._poller.on(self._stdin, lambda _: self._pass_on(), select.POLLOUT)
            return
        except OSError:  # the container closed its input
            self._input = b""
        self._poller.off(self._stdin)
        self._listen(True)

    def _listen(self, wanted: bool) -> None:
        """Start reading input from all clients, or stop reading it."""
        for client in self._clients:
            if client.stdin is not None and wanted:
                self._poller.on(client.stdin, self._taker(client))
            elif client.stdin is not None:
                self._poller.off(client.stdin)

    def _taker(self, client: ConsoleClient) -> Callable[[int], None]:
        return lambda _: self._take(client)

    def _no_more(self, client: ConsoleClient) -> None:
        """Close a client's input after its end; with `stdinOnce` and no terminal, close the container's input too."""
        if client.stdin is not None:
            self._poller.off(client.stdin)
            os.close(client.stdin)
            client.stdin = None
            if self._once and not self._tty and self._stdin is not None:
                self._poller.off(self._stdin)
                os.close(self._stdin)
                self._stdin = None

    # The connection

    def _hear(self, client: ConsoleClient) -> None:
        """Read terminal sizes that a client sends and apply them; detach the client if it closed the connection."""
        try:
            data = client.connection.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._detach(client)
            return
        *lines, client.heard = (client.heard + data)[-_CHUNK_BYTES:].split(b"\n")
        for line in lines if self._tty else ():
            with contextlib.suppress(ValueError, KeyError, TypeError, OSError, struct.error):
                width, height = json.loads(line)["resize"]
                assert self._stdin is not None
                fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def _detach(self, client: ConsoleClient) -> None:
        self._clients.remove(client)
        self._poller.off(client.connection.fileno())
        self._no_more(client)
        for descriptor in client.outputs.values():
            self._poller.off(descriptor)
            os.close(descriptor)
        client.connection.close()
