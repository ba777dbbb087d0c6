"""The one interface between pods and what runs them.

A container is started once an attempt and told apart by a key; what was started can be found again after the agent was
killed, which is why starting twice is harmless and why all that is known about an attempt comes from the runtime. The
interface asks for no more than a CRI runtime could do. Left out: restarts and their delays (`lifecycle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from dray.node.cdi import NO_EDITS, Edits

LOST_EXIT_CODE = 137  # what Kubernetes says of a container that nobody saw end


class Key(NamedTuple):
    """An attempt to run a container of a pod; attempts count from 0."""

    pod: str  # uid
    container: str
    attempt: int


@dataclass(frozen=True)
class Mount:
    """A directory or file of the host that is to appear in a container."""

    source: str
    target: str
    readonly: bool = False


@dataclass(frozen=True)
class Task:
    """A container to be started."""

    key: Key
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""  # empty: the runtime's choice
    edits: Edits = NO_EDITS
    mounts: tuple[Mount, ...] = ()
    hostname: str = ""
    quick_ends: int = 0  # how many attempts in a row ended soon before this one
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """What is known of an attempt; it runs while `exit_code` is None."""

    key: Key
    started: float
    quick_ends: int = 0
    finished: float = 0.0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""

    @property
    def running(self) -> bool:
        return self.exit_code is None


class StartError(Exception):
    """A container could not be started, and another try may do no better; the text is for the pod's status."""


class Runtime(Protocol):
    """Runs containers. Everything but `wait` and `stop` returns soon."""

    @property
    def name(self) -> str: ...

    @property
    def needs_command(self) -> bool:
        """Whether a container must say what to run, since no image does."""
        ...

    @property
    def mounts_volumes(self) -> bool:
        """Whether `Task.mounts` are made; otherwise they need not exist."""
        ...

    def cannot(self, task: Task) -> list[str]:
        """The parts of a task that this runtime cannot give to a container, in words."""
        ...

    async def start(self, task: Task) -> Attempt:
        """Start a container, without what it `cannot`. Started before: the attempt that is there. `StartError`."""
        ...

    def attempts(self, pod: str) -> list[Attempt]:
        """What is known of the containers of a pod, in the order of attempts."""
        ...

    def pods(self) -> Iterable[str]:
        """The uids of all pods of which something is known."""
        ...

    async def wait(self, key: Key) -> None:
        """Return when the attempt has ended, or is unknown."""
        ...

    async def stop(self, key: Key, grace: float) -> None:
        """Ask a container to end, make it end after `grace` seconds, return when it has. May be called again, with
        less grace, while an earlier call waits."""
        ...

    def log(self, key: Key) -> Path | None:
        """The file with what the container has written; None where there is none."""
        ...

    def remove(self, pod: str) -> None:
        """Forget a pod whose containers have all ended."""
        ...
