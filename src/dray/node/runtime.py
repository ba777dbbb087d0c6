"""The one interface between pods and what runs them.

A container is started once an attempt and told apart by a key; what was started can be found again after the agent was
killed, which is why starting twice is harmless and why all that is known about an attempt comes from the runtime. The
interface asks for no more than a CRI runtime could do. Left out: restarts and their delays (`lifecycle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from dray.api.cdi import NO_EDITS, CdiEdits
from dray.node.security import ContainerSecurity
from dray.node.usage import ContainerUsage

LOST_EXIT_CODE = 137  # what Kubernetes says of a container that nobody saw end


class Key(NamedTuple):
    """An attempt to run a container of a pod; attempts count from 0."""

    pod: str  # uid
    container: str
    attempt: int


@dataclass(frozen=True)
class BindMount:
    """A directory or file of the host that is to appear in a container."""

    source: str
    target: str
    readonly: bool = False
    subpath: str = ""  # the part of the source that is meant
    propagation: str = ""  # HostToContainer, Bidirectional, or none
    staged: bool = False  # the source comes into being just before it is mounted


@dataclass(frozen=True)
class TerminationMessage:
    """Where a container says why it ended, and what stands for it when it says nothing and has failed."""

    path: str = ""
    from_log: bool = False
    limit: int = 4096  # bytes


@dataclass(frozen=True)
class Task:
    """A container to be started."""

    key: Key
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""  # empty: the runtime's choice
    edits: CdiEdits = NO_EDITS
    mounts: tuple[BindMount, ...] = ()
    hostname: str = ""
    quick_ends: int = 0  # how many attempts in a row ended soon before this one
    annotations: Mapping[str, str] = field(default_factory=dict)
    message: TerminationMessage = TerminationMessage()
    rootfs: str = ""  # of an image; empty: the host's
    security: ContainerSecurity = field(default_factory=ContainerSecurity)
    stdin: bool = False  # whoever attaches may write to it; otherwise it is empty
    stdin_once: bool = False  # it ends with the first who attached
    tty: bool = False
    target: str = ""  # a container of the pod whose processes this one is to see
    target_pid: int = 0  # of that container; the runtime finds it out


@dataclass(frozen=True)
class ContainerAttempt:
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


class ContainerStartError(Exception):
    """A container could not be started, and another try may do no better; the text is for the pod's status."""


class ExecError(Exception):
    """A command could not be started in a container; the text says why."""


class ExecSession(Protocol):
    """A command that runs in a container. Its output must be read to its end, and the session closed."""

    @property
    def failure(self) -> str:
        """Why the program could not be started, once `wait` has returned; empty when it was."""
        ...

    async def read(self, stream: str = "stdout") -> bytes:
        """What comes next from `stdout` or `stderr`; empty at the end. With a terminal all comes from `stdout`."""
        ...

    async def write(self, data: bytes) -> None:
        """Pass on to standard input; nothing happens once nobody reads it any more."""
        ...

    def close_stdin(self) -> None: ...

    def resize(self, width: int, height: int) -> None:
        """The size of the terminal, in characters."""
        ...

    async def wait(self) -> int:
        """The exit code, when the command has ended; 128 and the signal's number when a signal has ended it."""
        ...

    def close(self) -> None:
        """Let go of everything; a command that still runs is killed."""
        ...


class Runtime(Protocol):
    """Runs containers. Everything but `wait` and `stop` returns soon."""

    @property
    def name(self) -> str: ...

    @property
    def executes(self) -> bool:
        """Whether containers are really run: they need a command, and can be asked how they are."""
        ...

    @property
    def mounts_volumes(self) -> bool:
        """Whether `Task.mounts` are made and `Task.rootfs` is used; otherwise they need not exist."""
        ...

    def cannot(self, task: Task) -> list[str]:
        """The parts of a task that this runtime cannot give to a container, in words."""
        ...

    def default_user(self) -> int:
        """The user that containers run as unless they or their image name another."""
        ...

    async def start(self, task: Task) -> ContainerAttempt:
        """Start a container, without what it `cannot`. Started before: the attempt that is there. `ContainerStartError`."""
        ...

    def attempts(self, pod: str) -> list[ContainerAttempt]:
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

    async def exec(self, key: Key, argv: Sequence[str], *, tty: bool = False, stdin: bool = False) -> ExecSession:
        """Run a command in a running container, as its own processes run; `ExecError`.

        Without `stdin` the command reads an empty file. The command ends when its session is closed, when the agent
        ends, and with the container.
        """
        ...

    async def attach(self, key: Key, *, stdin: bool = False) -> ExecSession:
        """What a running container writes from now on, and its standard input if it has one; `ExecError`.

        The container does not end when the session is closed.
        """
        ...

    def log(self, key: Key) -> Path | None:
        """The file with what the container has written; None where there is none."""
        ...

    def usage(self, keys: Sequence[Key]) -> dict[Key, ContainerUsage]:
        """What running containers have used so far; nothing of those that are not executed. May take a while."""
        ...

    def remove(self, pod: str) -> None:
        """Forget a pod whose containers have all ended."""
        ...
