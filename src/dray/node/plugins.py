"""Finds the drivers on this node: their sockets appear in a directory, are registered, and disappear again.

Each socket has its own task, so that a socket that hangs delays no other. Several instances of a driver may be
registered during an update: the latest is called, and when it disappears, the one before it. A driver that is being
replaced is unreachable for a moment; its slices are removed only after no instance was reachable for a while. Left
out: calls to drivers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio

from dray.api import names
from dray.client import Clock
from dray.client.backoff import Backoff
from dray.client.clock import Timer
from dray.node.drivers import V1, V1BETA1, DriverConnection, DriverError, open_channel
from dray.rpc import registration_pb2
from dray.rpc.services import stub

log = logging.getLogger(__name__)

DRA_PLUGIN = "DRAPlugin"
LOOK_SECONDS = 0.1  # interval of reading the directory, which takes some microseconds
_PATIENCE_SECONDS = 10.0  # timeout for a socket that does not answer
_RETRY_AFTER_BUG_SECONDS = 5.0
AWAY_SECONDS = 30.0  # slices of a driver that is away for longer are removed, as in Kubernetes

_Answer = TypeVar("_Answer")
_Identity = tuple[int, int]  # inode and change time: differs if a new socket has the same path


class RegistrationState(Enum):
    """Registration state of a driver on the node."""

    ABSENT = "absent"
    PRESENT = "present"
    AWAY = "away"  # too short to be absent, as the driver may just be replaced


class RegistrationEvent(Enum):
    CONNECTED = "connected"
    LEFT = "left"  # the last connection is lost, or the last socket was removed
    TIMED_OUT = "timed out"


TRANSITIONS: dict[tuple[RegistrationState, RegistrationEvent], RegistrationState] = {
    (RegistrationState.ABSENT, RegistrationEvent.CONNECTED): RegistrationState.PRESENT,
    (
        RegistrationState.ABSENT,
        RegistrationEvent.LEFT,
    ): RegistrationState.AWAY,  # registered, but its endpoint was never reached
    (RegistrationState.PRESENT, RegistrationEvent.LEFT): RegistrationState.AWAY,
    (RegistrationState.AWAY, RegistrationEvent.CONNECTED): RegistrationState.PRESENT,
    (RegistrationState.AWAY, RegistrationEvent.TIMED_OUT): RegistrationState.ABSENT,
}


class RegistrationError(Exception):
    """A socket's registration is invalid. The text says what was expected."""


class _Presence:
    """One driver's registration state. Removes the driver's slices when it becomes ABSENT after a timeout."""

    def __init__(self, clock: Clock, remove_slices: Callable[[], None]) -> None:
        self.state = RegistrationState.ABSENT
        self._clock = clock
        self._remove_slices = remove_slices
        self._timer: Timer | None = None

    def tell(self, event: RegistrationEvent) -> None:
        """Change the state after an event, and start or stop the timeout."""
        before = self.state
        self.state = TRANSITIONS.get((before, event), before)
        if self.state is not before and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.state is RegistrationState.AWAY and before is not RegistrationState.AWAY:
            self._timer = self._clock.call_later(AWAY_SECONDS, lambda: self.tell(RegistrationEvent.TIMED_OUT))
        if self.state is RegistrationState.ABSENT and before is RegistrationState.AWAY:
            self._remove_slices()


class Plugins:
    """The drivers that are registered with this node.

    `changed` is called with a driver's name when the driver becomes reachable, and `lost` when it is no longer.
    `accompany` runs for every instance as long as it is registered. `remove_slices` runs after a driver was away for
    long, and is cancelled when the driver returns.
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock,
        changed: Callable[[str], None],
        remove_slices: Callable[[str], Coroutine[None, None, None]],
        lost: Callable[[str], None] = lambda name: None,
        accompany: Callable[[DriverConnection], Coroutine[None, None, None]] | None = None,
        locate: Callable[[str], str] = lambda path: path,
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._changed = changed
        self._remove_slices = remove_slices
        self._lost = lost
        self._accompany = accompany
        self._locate = locate
        self._sockets: dict[str, tuple[_Identity, asyncio.Task[None]]] = {}
        self._instances: dict[str, dict[str, DriverConnection]] = {}  # by name, then by socket, the latest last
        self._presence: dict[str, _Presence] = {}
        self._removals: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def find(self, name: str) -> DriverConnection | None:
        """Return the instance of a driver to call, or None: the latest that is connected, otherwise the latest.

        None means that no instance is registered.
        """
        instances = [*self._instances.get(name, {}).values()]
        return next((d for d in reversed(instances) if d.connected), instances[-1] if instances else None)

    def is_reachable(self, name: str) -> bool:
        return any(driver.connected for driver in self._instances.get(name, {}).values())

    def all(self) -> list[DriverConnection]:
        return [driver for instances in self._instances.values() for driver in instances.values()]

    async def run(self) -> None:
        """Watch the directory for sockets until cancelled."""
        self._directory.mkdir(parents=True, exist_ok=True)
        async with asyncio.TaskGroup() as self._group:
            while True:
                self._look(self._group)
                await asyncio.sleep(LOOK_SECONDS)

    def _look(self, group: asyncio.TaskGroup) -> None:
        """Start a task for each new socket, and cancel the tasks of removed sockets."""
        found = _sockets(self._directory)
        for path, (identity, task) in [*self._sockets.items()]:
            if found.get(path) != identity:
                task.cancel()
                del self._sockets[path]
        for path, identity in found.items():
            if path not in self._sockets:
                self._sockets[path] = identity, group.create_task(self._attend(path), name=f"plugin {path}")

    async def _attend(self, path: str) -> None:
        """Handle a socket until cancelled.

        Unexpected errors are logged and retried, so other sockets are not affected.
        """
        while True:
            try:
                await self._stay_with(path)
            except Exception:
                log.exception("plugin %s", path)
            await self._clock.sleep(_RETRY_AFTER_BUG_SECONDS)

    async def _stay_with(self, path: str) -> None:
        """Register the driver at a socket and follow its connection until cancelled."""
        # From here on the driver is registered, even if it is not told that it was accepted.
        driver = await self._until_it_works(path, lambda stub: self._introduce(stub, path))
        instances = self._instances.setdefault(driver.name, {})
        instances.pop(path, None)
        instances[path] = driver
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until_it_works(path, lambda stub: self._notify(stub, "")))
                if self._accompany is not None:
                    group.create_task(self._accompany(driver))
                await driver.follow_connection(lambda connected: self._told(driver, connected))
        finally:
            self._leave(path, driver)
            await driver.aclose()

    def _told(self, driver: DriverConnection, connected: bool) -> None:
        if connected:
            self._tell(driver.name, RegistrationEvent.CONNECTED)
            self._changed(driver.name)
        else:
            self._lost_one(driver.name)

    def _leave(self, path: str, driver: DriverConnection) -> None:
        instances = self._instances[driver.name]
        if instances.get(path) is driver:
            del instances[path]
        self._lost_one(driver.name)

    def _lost_one(self, name: str) -> None:
        if not any(instance.connected for instance in self._instances[name].values()):
            self._tell(name, RegistrationEvent.LEFT)
            self._lost(name)

    def _tell(self, name: str, event: RegistrationEvent) -> None:
        if name not in self._presence:
            self._presence[name] = _Presence(self._clock, lambda: self._begin_removal(name))
        self._presence[name].tell(event)
        if event is RegistrationEvent.CONNECTED and name in self._removals:
            self._removals.pop(name).cancel()

    def _begin_removal(self, name: str) -> None:
        log.info("DRA driver %s is gone: deleting its slices", name)
        assert self._group is not None
        self._removals[name] = self._group.create_task(self._remove_slices(name))

    async def _until_it_works(self, path: str, ask: Callable[[Any], Awaitable[_Answer]]) -> _Answer:
        """Call a socket's registration service until that succeeds. Returns the answer.

        Retries with a backoff after errors of the call, of the driver and of the registration.
        """
        backoff = Backoff(self._clock, initial=0.5, limit=60.0)
        while True:
            try:
                async with open_channel(path) as channel:
                    return await ask(stub(channel, registration_pb2))
            except grpc.aio.AioRpcError as error:
                log.warning("plugin %s is not registered: %s: %s", path, error.code().name, error.details())
            except (RegistrationError, DriverError) as error:
                log.warning("plugin %s is not registered: %s", path, error)
            await backoff.pause()

    async def _introduce(self, stub: Any, path: str) -> DriverConnection:
        """Ask a socket for its driver and return the connection. Raises `RegistrationError` for an invalid driver."""
        info = await stub.GetInfo(registration_pb2.InfoRequest(), timeout=_PATIENCE_SECONDS)
        if problem := _problem(info):
            await self._notify(stub, problem)
            raise RegistrationError(problem)
        # A driver in a container names its endpoint as seen inside the container.
        endpoint = self._locate(info.endpoint or path)
        driver = DriverConnection(info.name, endpoint, info.supported_versions)
        log.info("DRA driver %s is registered: %s at %s", driver.name, driver.version, driver.endpoint)
        return driver

    async def _notify(self, stub: Any, problem: str) -> None:
        status = registration_pb2.RegistrationStatus(plugin_registered=not problem, error=problem)
        await stub.NotifyRegistrationStatus(status, timeout=_PATIENCE_SECONDS)


def _problem(info: registration_pb2.PluginInfo) -> str:
    """Return why a plugin is refused, or "" if it is accepted."""
    if info.type != DRA_PLUGIN:
        return f"plugin type {info.type!r} is not supported, expected {DRA_PLUGIN}"
    for complaint in names.subdomain(info.name):
        return f"driver name {info.name!r}: {complaint}"
    if info.endpoint and not os.path.isabs(info.endpoint):
        return f"endpoint {info.endpoint!r}: expected an absolute path"
    if not {V1, V1BETA1} & set(info.supported_versions):
        return f"supported versions {', '.join(info.supported_versions) or 'none'}: expected {V1} or {V1BETA1}"
    return ""


def _sockets(directory: Path) -> dict[str, _Identity]:
    found: dict[str, _Identity] = {}
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # removed after the directory was read
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISSOCK(status.st_mode) and entry.name[0] != ".":
                    found[entry.path] = status.st_ino, status.st_ctime_ns
    return found
