"""Containers as processes with one guardian each: the common part of the runtimes `process`, `bwrap` and `oci`.

Each attempt has a directory, `<root>/pods/<uid>/containers/<name>/<attempt>-<token>`, and a guardian (`shim`) that
holds a lock on a file in it. The state of an attempt is read only from this directory, so a restarted agent finds its
containers again. If the agent can take the lock, the attempt has no guardian any more and is given up. An attempt
that never began is removed: a guardian that starts late finds its directory gone and starts nothing, and the token in
the name keeps it from finding the next attempt. A `Wrapper` turns a command line into a container.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from dray.files import read_regular
from dray.node import shim
from dray.node.builders import why_not_started
from dray.node.execution import attach, ready, run_command
from dray.node.private import make_private, remove_tree
from dray.node.runtime import (
    LOST_EXIT_CODE,
    BindMount,
    ContainerAttempt,
    ContainerKey,
    ContainerStartError,
    ExecError,
    ExecSession,
    Task,
)
from dray.node.termination import MESSAGE_FILE, last_line, termination_message
from dray.node.usage import ContainerUsage, of_descendants

_SHIM = str(Path(shim.__file__))
_KILL_AGAIN_SECONDS = 1.0  # a kill may come before the container's process exists
_POLL_SECONDS = 0.1  # for kernels without pidfd
# A guardian that takes longer than this to start its container is stuck; a loaded machine needs a second.
_START_SECONDS = 30.0
_TARGET_SECONDS = 10.0  # timeout for a started container to have a process


@dataclass(frozen=True)
class Launch:
    """The command that the guardian executes, and which process gets its signals.

    That process is a descendant `depth` generations down, or its pid is in a file.
    """

    argv: list[str]
    env: dict[str, str]
    directory: str
    depth: int = 0
    pid_file: str = ""
    report: str = ""  # file in which bwrap reports to `shim.REPORT_DESCRIPTOR` how its program ended
    inside: str = ""  # the working directory as the container sees it
    identity: Mapping[str, Any] = field(default_factory=dict)  # user, group, groups, no_new_privileges
    pids: str = ""  # PID namespace to enter: `new`, or a path (`foreground`)
    inside_env: Mapping[str, str] | None = None  # the container's environment, if `env` is that of another program


class Wrapper(Protocol):
    """Turns a container's command line into the command line that runs the container."""

    @property
    def name(self) -> str: ...

    @property
    def mounts_volumes(self) -> bool: ...

    def unavailable(self) -> str:
        """Return why this machine cannot use the wrapper, or "" if it can."""
        ...

    def cannot(self, task: Task) -> list[str]: ...

    def refuses(self, task: Task) -> list[str]:
        """Return a text for each part of a task that cannot be applied and without which the container must not run."""
        ...

    def launch(self, task: Task, directory: Path) -> Launch:
        """Return the command to run. `directory` is the attempt's, where the wrapper may write files.

        Raises `ContainerStartError` if something is missing.
        """
        ...

    def clean(self, directory: Path) -> None:
        """Remove what an ended attempt left outside its directory."""
        ...


class Supervised:
    """A `Runtime` that runs each container under a guardian, through a wrapper."""

    executes = True

    def __init__(self, root: Path, wrapper: Wrapper) -> None:
        self._pods = root / "pods"
        self._wrapper = wrapper
        self._children: dict[ContainerKey, int] = {}  # guardians that this process started and must reap
        self._starting: set[ContainerKey] = set()
        self._directories: dict[ContainerKey, Path] = {}  # as of the last scan
        self._ended: dict[ContainerKey, ContainerAttempt] = {}  # ended attempts, which no longer change

    @property
    def name(self) -> str:
        return self._wrapper.name

    @property
    def mounts_volumes(self) -> bool:
        return self._wrapper.mounts_volumes

    def cannot(self, task: Task) -> list[str]:
        return self._wrapper.cannot(task)

    def default_user(self) -> int:
        return os.geteuid()

    async def start(self, task: Task) -> ContainerAttempt:
        known = self._find(task.key)
        if known is not None:
            return known
        if refused := self._wrapper.refuses(task):
            raise ContainerStartError(f"the runtime {self.name} cannot apply: {', '.join(refused)}")
        self._prune(task.key)
        directory = self._container(task.key) / f"{task.key.attempt}-{secrets.token_hex(4)}"
        make_private(directory)
        self._directories[task.key] = directory
        self._starting.add(task.key)
        try:
            task = replace(task, target_pid=await self._target(task)) if task.target else task
            launch = self._wrapper.launch(self._with_message(task, directory), directory)
            _write_task(directory, task, launch)
            await self._spawn(task.key, directory)
        except BaseException as error:
            if isinstance(error, ContainerStartError):
                self._forget(task.key)  # nothing ran, so the number may be used again
            raise
        finally:
            self._starting.discard(task.key)
        attempt = self._attempt(task.key, directory)
        assert attempt is not None  # a started attempt has a pid
        return attempt

    def _with_message(self, task: Task, directory: Path) -> Task:
        """Return the task with a mounted file for its termination message, if the wrapper can mount files.

        Returns the task unchanged without a path for the message.
        """
        if not (task.message.path and self._wrapper.mounts_volumes):
            return task
        file = directory / MESSAGE_FILE
        file.touch()
        file.chmod(0o666)  # writable for any user of the container; the directory above is private to the agent
        return replace(task, mounts=(*task.mounts, BindMount(str(file), task.message.path)))

    async def _target(self, task: Task) -> int:
        """Return the pid of the container whose processes a task shall see.

        Waits for a container that is about to begin. Raises `ContainerStartError` if that container is not running.
        """
        deadline = time.monotonic() + _TARGET_SECONDS
        while any(a.key.container == task.target and a.running for a in self.attempts(task.key.pod)):
            if pid := self._pid_of(task):
                return pid
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(_POLL_SECONDS)
        raise ContainerStartError(f"target container {task.target} is not running")

    def _pid_of(self, task: Task) -> int:
        """Return the pid of the task's target container, or 0 if it has none yet.

        A task without a running target container also gives 0.
        """
        for attempt in self.attempts(task.key.pod):
            if attempt.key.container == task.target and attempt.running:
                directory = self._directories[attempt.key]
                pids, written = _read(directory / "pid.json"), _read(directory / "task.json")
                if pids is not None and written is not None:
                    return shim.inner_of(written, pids["child"])
        return 0

    def _find(self, key: ContainerKey) -> ContainerAttempt | None:
        return next((attempt for attempt in self.attempts(key.pod) if attempt.key == key), None)

    async def _spawn(self, key: ContainerKey, directory: Path) -> None:
        reads, theirs = os.pipe()
        try:
            self._children[key] = _guardian(directory, theirs)
            os.close(theirs)
            async with asyncio.timeout(_START_SECONDS):
                await ready(reads, writing=False)
        except TimeoutError:
            raise ContainerStartError(f"the container did not start within {_START_SECONDS:.0f} s") from None
        finally:
            os.close(reads)
        if not (directory / "pid.json").exists():
            raise ContainerStartError(f"the container was not started: {_tail(directory / 'shim.err')}")

    def attempts(self, pod: str) -> list[ContainerAttempt]:
        found = []
        for container in _entries(self._pods / pod / "containers"):
            for directory in _entries(container):
                key = ContainerKey(pod, container.name, _number(directory))
                self._directories[key] = directory
                if key not in self._starting and (attempt := self._attempt(key, directory)) is not None:
                    found.append(attempt)
        return sorted(found, key=lambda attempt: attempt.key)

    def pods(self) -> Iterable[str]:
        return [entry.name for entry in _entries(self._pods)]

    async def wait(self, key: ContainerKey) -> None:
        while (attempt := self._find(key)) is not None and attempt.running:
            pids = _read(self._directories[key] / "pid.json")
            if pids is None:  # the guardian is about to start, or to end without starting
                await asyncio.sleep(_POLL_SECONDS)
            else:
                await _process_ended(pids["shim"], pids["shim_start"])
        await self._reap(key)

    async def stop(self, key: ContainerKey, grace: float) -> None:
        ended = asyncio.ensure_future(self.wait(key))
        try:
            if grace > 0:
                self._signal(key, signal.SIGTERM)
                await asyncio.wait((ended,), timeout=grace)
            while not ended.done():
                self._signal(key, signal.SIGUSR1)
                await asyncio.wait((ended,), timeout=_KILL_AGAIN_SECONDS)
        finally:
            ended.cancel()

    async def exec(
        self, key: ContainerKey, argv: Sequence[str], *, tty: bool = False, stdin: bool = False
    ) -> ExecSession:
        return await run_command(self._running(key), argv, tty=tty, stdin=stdin)

    async def attach(self, key: ContainerKey, *, stdin: bool = False) -> ExecSession:
        return await attach(self._running(key), stdin=stdin)

    def _running(self, key: ContainerKey) -> Path:
        """Return the directory of a running attempt. Raises `ExecError` if it is not running."""
        attempt = self._find(key)
        if attempt is None or not attempt.running:
            raise ExecError(f"container {key.container} is not running")
        return self._directories[key]

    def log(self, key: ContainerKey) -> Path | None:
        directory = self._directories.get(key)
        return None if directory is None else directory / "log"

    def usage(self, keys: Sequence[ContainerKey]) -> dict[ContainerKey, ContainerUsage]:
        files = {key: self._directories[key] / "pid.json" for key in keys if key in self._directories}
        return of_descendants({pids["shim"]: key for key, file in files.items() if (pids := _read(file)) is not None})

    def remove(self, pod: str) -> None:
        for attempt in self.attempts(pod):
            self._forget(attempt.key)
        remove_tree(self._pods / pod)

    # One attempt, from its files

    def _container(self, key: ContainerKey) -> Path:
        for name in (key.pod, key.container):
            if "/" in name or "\0" in name or name in ("", ".", ".."):
                raise ContainerStartError(f"{name!r} is not a valid directory name")
        return self._pods / key.pod / "containers" / key.container

    def _forget(self, key: ContainerKey) -> None:
        directory = self._directories.pop(key)
        self._ended.pop(key, None)
        self._wrapper.clean(directory)
        remove_tree(directory)

    def _attempt(self, key: ContainerKey, directory: Path) -> ContainerAttempt | None:
        """Return the state of an attempt from its files, or None if it has not begun."""
        if key in self._ended:
            return self._ended[key]
        end = _read(directory / "exit.json") or self._lost(directory)
        pids, task = _read(directory / "pid.json"), _read(directory / "task.json")
        if pids is None or task is None:
            return None
        started, quick_ends = pids["started"], task["quick_ends"]
        if end is None:
            return ContainerAttempt(key, started, quick_ends)
        message = end["message"] or _said(directory, task, end)
        attempt = ContainerAttempt(key, started, quick_ends, end["finished"], end["code"], end["reason"], message)
        self._ended[key] = attempt
        return attempt

    def _lost(self, directory: Path) -> dict[str, Any] | None:
        """Give up an attempt without guardian. Returns its end, or None if it has a guardian or never began."""
        with _locked(directory / "lock") as locked:
            if not locked:
                return None
            end = _read(directory / "exit.json")  # the guardian may have written it in between
            if end is None and not (directory / "pid.json").exists():
                self._wrapper.clean(directory)
                remove_tree(directory)
            elif end is None:
                _kill_left_over(directory)
                self._wrapper.clean(directory)
                message = "The container could not be located: its guardian was killed, or the machine restarted"
                end = {"code": LOST_EXIT_CODE, "reason": "ContainerStatusUnknown", "message": message}
                end["finished"] = time.time()
                with contextlib.suppress(OSError):  # on a full disk the next start of the agent does this again
                    shim.write_json(str(directory / "exit.json"), end)
            return end

    def _signal(self, key: ContainerKey, number: int) -> None:
        pids = _read(self._directories[key] / "pid.json") if key in self._directories else None
        if pids is not None and _alive(pids["shim"], pids["shim_start"]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids["shim"], number)

    async def _reap(self, key: ContainerKey) -> None:
        pid = self._children.get(key)
        if pid is not None:
            await _process_ended(pid, shim.start_time(pid))
            self._collect(key)

    def _collect(self, key: ContainerKey) -> None:
        """Reap a guardian's process unless another waiting task has already done so."""
        pid = self._children.pop(key, None)
        if pid is not None:
            os.waitpid(pid, 0)

    def _prune(self, key: ContainerKey) -> None:
        """Delete all attempts of a container but the last before the new one: `logs --previous` needs only that one."""
        for directory in _entries(self._container(key)):
            old = ContainerKey(key.pod, key.container, _number(directory))
            if old.attempt < key.attempt - 1:
                self._forget(old)


def _guardian(directory: Path, output: int) -> int:
    """Start a guardian and return its pid.

    Uses posix_spawn, because fork handlers and `preexec_fn` conflict with the threads of gRPC. `output` is the
    descriptor for the guardian's standard output. Raises OSError if it cannot be started.
    """
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_OPEN, 2, str(directory / "shim.err"), os.O_WRONLY | os.O_CREAT, 0o600),
    ]
    argv = [sys.executable, "-I", "-S", _SHIM, str(directory)]
    return os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsid=True)


def _write_task(directory: Path, task: Task, launch: Launch) -> None:
    written = asdict(launch) | {
        "program": task.argv[0] if task.argv else "",
        "inside": launch.inside or launch.directory,
        "inside_env": launch.env if launch.inside_env is None else launch.inside_env,
        "quick_ends": task.quick_ends,
        "message": asdict(task.message),
        "stdin": task.stdin,
        "stdin_once": task.stdin_once,
        "tty": task.tty,
    }
    shim.write_json(str(directory / "task.json"), written)


def _said(directory: Path, task: dict[str, Any], end: dict[str, Any]) -> str:
    """Return the message of an ended attempt: why it was not started, or its termination message.

    The message may be empty.
    """
    if end["reason"] == "StartError":  # the log holds only the output of bwrap or runc
        return why_not_started(last_line(directory), task["program"])
    return termination_message(directory, task, end["code"])


def _number(directory: Path) -> int:
    return int(directory.name.partition("-")[0])


def _entries(directory: Path) -> list[Path]:
    try:
        return [*directory.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(file: Path) -> dict[str, Any] | None:
    try:
        value: dict[str, Any] = json.loads(read_regular(file))
    except FileNotFoundError:
        return None
    return value


def _tail(file: Path) -> str:
    with contextlib.suppress(OSError):
        return read_regular(file).decode(errors="replace").strip().rpartition("\n")[2]
    return ""


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[bool]:
    """Try to take the guardian's lock. Yields False if the guardian holds the lock.

    The lock is released at the end of the `with` block.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def _kill_left_over(directory: Path) -> None:
    """Kill a container whose guardian process was killed."""
    pids = _read(directory / "pid.json")
    if pids is not None and _alive(pids["child"], pids["child_start"]):
        shim.kill_rest(pids["child"])


def _alive(pid: int, started: int) -> bool:
    try:
        return shim.start_time(pid) == started
    except (OSError, IndexError):
        return False


async def _process_ended(pid: int, started: int) -> None:
    """Wait for the end of a process, which need not be a child."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ESRCH:
            return
        await _process_gone(pid, started)
        return
    try:
        if _alive(pid, started):
            await ready(descriptor, writing=False)
    finally:
        os.close(descriptor)


async def _process_gone(pid: int, started: int) -> None:
    """Wait for the end of a process by polling, for kernels without pidfd."""
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        if not _alive(pid, started):
            return
