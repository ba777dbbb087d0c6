"""Where the sockets of a driver are, and servers on them that leave nothing behind.

During a rolling update the new instance starts before the old one ends, so each has sockets of its own, told apart by a
uid. Left out: what is served (`plugin`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

# sun_path of a Unix domain socket has 108 bytes, the last one is zero.
PATH_BYTES_MAX = 107


class SocketError(Exception):
    """A socket cannot be opened; the text says which and why."""


@dataclass(frozen=True)
class Sockets:
    """The two sockets of an instance."""

    registration: Path
    plugin: Path

    @classmethod
    def below(cls, kubelet_dir: Path, driver: str, instance: str = "") -> Sockets:
        """Where the node agent looks; `instance` is the uid of this instance when it may overlap with another one."""
        kubelet_dir = kubelet_dir.absolute()
        return cls(
            kubelet_dir / "plugins_registry" / (f"{driver}-{instance}-reg.sock" if instance else f"{driver}-reg.sock"),
            kubelet_dir / "plugins" / driver / (f"dra-{instance}.sock" if instance else "dra.sock"),
        )


class SocketServer:
    """A gRPC server on a Unix domain socket."""

    def __init__(self, path: Path, add_services: Callable[[grpc.aio.Server], None]) -> None:
        self._path = path
        self._server = grpc.aio.server()
        add_services(self._server)
        self._inode = 0

    async def start(self) -> None:
        check_length(self._path)
        try:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            _remove_stale(self._path)
            self._server.add_insecure_port(f"unix:{self._path}")
            self._inode = self._path.stat().st_ino
        except (OSError, RuntimeError) as error:
            raise SocketError(f"socket {self._path} cannot be opened: {error}") from error
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Refuse new calls, let those under way end within `grace` seconds, and remove the socket."""
        await self._server.stop(grace)
        try:
            if self._path.stat().st_ino == self._inode:  # not one that a successor has put there
                self._path.unlink()
        except FileNotFoundError:
            pass


def check_length(path: Path) -> None:
    length = len(os.fsencode(path))
    if length > PATH_BYTES_MAX:
        raise SocketError(
            f"socket path {path} has {length} bytes, at most {PATH_BYTES_MAX} can be bound: use a shorter directory"
        )


def _remove_stale(path: Path) -> None:
    """A killed predecessor leaves its socket; anything else in that place is somebody's file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketError(f"{path} is in the way: it is not a socket")
    path.unlink()
