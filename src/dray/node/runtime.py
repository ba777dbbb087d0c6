"""The interface between pods and the runtimes that run their containers.

A container is started once for each attempt, and each attempt has a key. All information about an attempt comes from
the runtime, which finds its attempts again after the agent was killed; so starting an attempt twice is harmless. The
interface requires nothing that a CRI runtime could not do. Left out: restarts and their delays (`lifecycle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from dray.api.cdi import NO_EDITS, CdiEdits
from dray.node.security import ContainerSecurity
from dray.node.usage import ContainerUsage

LOST_EXIT_CODE = 137  # exit code that Kubernetes reports for a container whose end was not observed


class ContainerKey(NamedTuple):
    """Identity of an attempt to run a container of a pod. Attempts count from 0."""

    pod: str  # uid
    container: str
    attempt: int


@dataclass(frozen=True)
class BindMount:
    """A file or directory of the host that is mounted into a container."""

    source: str
    target: str
    readonly: bool = False
    subpath: str = ""  # path below the source to mount
    propagation: str = ""  # HostToContainer, Bidirectional, or "" for none
    staged: bool = False  # the source is created just before it is mounted


@dataclass(frozen=True)
class TerminationMessage:
    """File for a container's termination message, and whether its log's end replaces an empty message on failure."""

    path: str = ""
    from_log: bool = False
    limit: int = 4096  # bytes


@dataclass(frozen=True)
class Task:
    """Everything that a runtime needs to start a container."""

    key: ContainerKey
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""  # empty: chosen by the runtime
    edits: CdiEdits = NO_EDITS
    mounts: tuple[BindMount, ...] = ()
    hostname: str = ""
    quick_ends: int = 0  # how many attempts in a row before this one ended soon
    annotations: Mapping[str, str] = field(default_factory=dict)
    message: TerminationMessage = TerminationMessage()
    rootfs: str = ""  # root directory of an image; empty: the host's
    security: ContainerSecurity = field(default_factory=ContainerSecurity)
    stdin: bool = False  # attached clients may write to standard input; otherwise it is empty
    stdin_once: bool = False  # standard input closes when the first attached client disconnects
    tty: bool = False
    target: str = ""  # a container of the pod whose processes this container sees
    target_pid: int = 0  # pid of the target container, set by the runtime


@dataclass(frozen=True)
class ContainerAttempt:
    """State of an attempt. The attempt runs while `exit_code` is None.

    `started` and `finished` are in seconds since 1970. `quick_ends` counts the attempts in a row before this one that
    ended soon.
    """

    key: ContainerKey
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
    """A container could not be started, and trying again may not help. The text is for the pod's status."""


class ExecError(Exception):
    """A command could not be started in a container. The text gives the reason."""


class ExecSession(Protocol):
    """A command that runs in a container. Its output must be read to the end, and the session must be closed."""

    @property
    def failure(self) -> str:
        """Why the program could not be started, or "" if it was. Valid after `wait` has returned."""
        ...

    async def read(self, stream: str = "stdout") -> bytes:
        """Return the next bytes of `stdout` or `stderr`, or b"" at the end. A terminal's output is all in `stdout`."""
        ...

    async def write(self, data: bytes) -> None:
        """Write bytes to standard input. Does nothing if the command has closed it."""
        ...

    def close_stdin(self) -> None: ...

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal, in characters."""
        ...

    async def wait(self) -> int:
        """Wait for the end of the command. Returns its exit code: 128 plus the signal's number if a signal ended it."""
        ...

    def close(self) -> None:
        """Release all resources of the session. A command that still runs is killed."""
        ...


class Runtime(Protocol):
    """Runs containers. All methods except `wait` and `stop` return soon."""

    @property
    def name(self) -> str: ...

    @property
    def executes(self) -> bool:
        """Whether containers really run. Such containers need a command and can be probed."""
        ...

    @property
    def mounts_volumes(self) -> bool:
        """Whether the runtime uses `Task.mounts` and `Task.rootfs`; if not, their paths need not exist."""
        ...

    def cannot(self, task: Task) -> list[str]:
        """Return a text for each part of a task that this runtime cannot give to a container.

        Returns nothing if the whole task can be carried out.
        """
        ...

    def default_user(self) -> int:
        """Return the uid that containers run as unless they or their image name another user."""
        ...

    async def start(self, task: Task) -> ContainerAttempt:
        """Start a container without the parts named by `cannot`. Returns the attempt, also if it was started before.

        Raises `ContainerStartError` if the container cannot be started.
        """
        ...

    def attempts(self, pod: str) -> list[ContainerAttempt]:
        """Return all known attempts of a pod's containers, sorted by key. `pod` is the pod's uid."""
        ...

    def pods(self) -> Iterable[str]:
        """Return the uids of all pods that the runtime knows."""
        ...

    async def wait(self, key: ContainerKey) -> None:
        """Return when the attempt has ended or is unknown."""
        ...

    async def stop(self, key: ContainerKey, grace: float) -> None:
        """Ask a container to end, kill it after `grace` seconds, and return when it has ended.

        May be called again with a shorter grace period while an earlier call waits.
        """
        ...

    async def exec(
        self, key: ContainerKey, argv: Sequence[str], *, tty: bool = False, stdin: bool = False
    ) -> ExecSession:
        """Run a command in a running container with the rights of its own processes. Raises `ExecError`.

        Without `stdin` the command's input is empty. The command ends when its session is closed, and with the agent
        or the container.
        """
        ...

    async def attach(self, key: ContainerKey, *, stdin: bool = False) -> ExecSession:
        """Return a session with a running container's new output, and with `stdin` its standard input.

        Raises `ExecError`. Closing the session does not end the container.
        """
        ...

    def log(self, key: ContainerKey) -> Path | None:
        """Return the container's log file, or None if it has none."""
        ...

    def usage(self, keys: Sequence[ContainerKey]) -> dict[ContainerKey, ContainerUsage]:
        """Return the resource usage of running containers so far; simulated ones are left out. May take a while."""
        ...

    def remove(self, pod: str) -> None:
        """Remove everything known of a pod whose containers have all ended."""
        ...
