"""Paths of a driver's sockets, and gRPC servers that remove their sockets at the end.

In a rolling update the new instance starts before the old one ends, so each instance has its own sockets,
distinguished by a uid. Left out: what is served (`plugin`).
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from dray.rpc.services import start_server

log = logging.getLogger(__name__)

# sun_path of a Unix domain socket has 108 bytes, of which the last is zero.
PATH_BYTES_MAX = 107


class SocketError(Exception):
    """A socket cannot be opened. The text names the socket and the reason."""


@dataclass(frozen=True)
class Sockets:
    """The registration socket and the DRA socket of an instance."""

    registration: Path
    plugin: Path

    @classmethod
    def below(cls, kubelet_dir: Path, driver: str, instance: str = "") -> Sockets:
        """Return the socket paths where the node agent looks. `instance` is a uid if instances may overlap.

        `instance` is "" for a driver whose instances do not overlap.
        """
        kubelet_dir = kubelet_dir.absolute()
        return cls(
            kubelet_dir / "plugins_registry" / (f"{driver}-{instance}-reg.sock" if instance else f"{driver}-reg.sock"),
            kubelet_dir / "plugins" / driver / (f"dra-{instance}.sock" if instance else "dra.sock"),
        )


class SocketServer:
    """A gRPC server on a Unix domain socket.

    The server listens on a hidden path, which is then renamed. So the socket appears only once the server answers and
    replaces a predecessor's socket without a gap; and gRPC, which removes the path that it opened, cannot remove a
    successor's socket.
    """

    def __init__(self, path: Path, add_services: Callable[[grpc.aio.Server], None]) -> None:
        self._path = path
        self._add_services = add_services
        self._server: grpc.aio.Server | None = None
        self._inode = 0

    async def start(self) -> None:
        if len(os.fsencode(self._path)) > PATH_BYTES_MAX:
            log.warning(
                "%s has more than %d bytes: dray's node agent can connect, a kubelet cannot", self._path, PATH_BYTES_MAX
            )
        try:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            _check_free(self._path)
            await self._open(self._path.with_name(f".{secrets.token_hex(3)}"))
        except (OSError, RuntimeError) as error:
            await self.stop(0)
            raise SocketError(f"socket {self._path} cannot be opened: {error}") from error

    async def _open(self, private: Path) -> None:
        self._server = grpc.aio.server()
        self._add_services(self._server)
        with _bindable(private) as path:
            self._server.add_insecure_port(f"unix:{path}")
            await start_server(self._server)
        self._show(private)

    def _show(self, private: Path) -> None:
        """Rename the hidden socket to its public path."""
        self._inode = private.stat().st_ino
        private.rename(self._path)

    async def stop(self, grace: float) -> None:
        """Remove the socket, refuse new calls, and let running calls end within `grace` seconds.

        Nothing happens if the server was not started. A successor's socket at the same path stays.
        """
        if self._server is None:
            return
        try:
            if self._path.stat().st_ino == self._inode:  # the path may hold a successor's socket
                self._path.unlink()
        except FileNotFoundError:
            pass
        await self._server.stop(grace)


@contextmanager
def _bindable(path: Path) -> Iterator[str]:
    """Give a name of a socket that is short enough to bind.

    If the path is long, the name leads through a descriptor of its directory. The name is valid during the `with`
    block. Raises OSError if the directory of a long path is missing.
    """
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _check_free(path: Path) -> None:
    """Raise `SocketError` if the path is used by something other than a socket, such as a user's file.

    A socket that a killed predecessor left may be replaced.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketError(f"{path} exists and is not a socket")
