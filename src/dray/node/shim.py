"""The guardian of one container: starts it, writes its log, records how it ended, and outlives the agent.

Runs as a separate program, `python -I -S shim.py DIRECTORY`, and uses only the standard library, because every
container has a guardian. It closes its standard output when the container runs or has failed. The directory holds
`task.json`. The guardian holds a lock on `lock` as long as it lives, writes `pid.json` before the container may begin
and `exit.json` at the container's end. SIGTERM is passed on to the container; SIGUSR1 kills it. Processes that leave
the container's process group become children of the guardian when their parents end (it is a subreaper), and are
killed with the container. On a full disk only log lines are lost, because the space for `exit.json` is reserved at
the start. If the directory is gone or has an `exit.json` at the start, the attempt was given up and nothing is
started.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import sys
import time

MYPY = False
if MYPY:  # for the type checker alone: importing `typing` would make every start slower
    from collections.abc import Callable, Iterator
    from typing import Any

LOG_BYTES = 10 * 1024 * 1024  # a log that grows larger is rotated once, as with Kubernetes' default
LINE_BYTES = 16 * 1024  # longer lines are written in parts, as in container runtimes
AGAIN_SECONDS = 0.05  # until SIGTERM is sent again to a container that has not begun yet
PR_SET_NO_NEW_PRIVS = 38
PR_SET_CHILD_SUBREAPER = 36
LEFTOVER_SECONDS = 10.0  # wait for killed descendants; setuid programs of other users cannot be killed and are left
LEFTOVER_LOOK_SECONDS = 0.01
END_BYTES = 16 * 1024  # reserved for exit.json
REPORT_DESCRIPTOR = 100  # where bwrap reports how its program ended; far from the descriptors that are open here
HANDLED = (signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD)
DRAIN_SECONDS = 0.2  # how long to read output after the end, if a process still holds the pipes open


def write_json(path: str, value: dict[str, Any]) -> None:
    """Write a value as JSON to a file, replacing the file atomically."""
    write_whole(path, json.dumps(value).encode())


def write_whole(path: str, data: bytes, sync: bool = False) -> None:
    """Replace a file atomically, using the disk space that `reserve` has taken for it, if any.

    With `sync` the data is forced to disk. Raises OSError if writing fails; then the file keeps its content.
    """
    file = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with open(file, "wb") as stream:
        stream.write(data)
        stream.truncate()
        stream.flush()
        if sync:
            os.fsync(file)
    os.replace(path + ".new", path)


def reserve(path: str, size: int) -> None:
    """Reserve the disk space that the next `write_whole` of a file will need. Raises OSError if the disk is full.

    `size` is in bytes.
    """
    file = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.posix_fallocate(file, 0, size)
    finally:
        os.close(file)


def start_time(pid: int | str) -> int:
    """Return when a process started, in ticks since boot; together with the pid this identifies the process.

    Raises OSError if the process is gone. `pid` may be "self".
    """
    with open(f"/proc/{pid}/stat") as stream:
        return int(stream.read().rpartition(")")[2].split()[19])


class ContainerLog:
    """The log file of a container: each line with its time, its stream, and F for a full line or P for a part."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = self._open()
        self._size = os.fstat(self._file).st_size
        self._rest = {"stdout": b"", "stderr": b""}

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, stream: str, data: bytes) -> None:
        now = time.time_ns()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09d}Z {stream} "
        prefix = stamp.encode()
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        out = []
        for line in lines:
            while len(line) > LINE_BYTES:
                out.append(prefix + b"P " + line[:LINE_BYTES] + b"\n")
                line = line[LINE_BYTES:]
            out.append(prefix + b"F " + line + b"\n")
        while len(rest) > LINE_BYTES or (rest and not data):
            out.append(prefix + b"P " + rest[:LINE_BYTES] + b"\n")
            rest = rest[LINE_BYTES:]
        self._rest[stream] = rest
        self._append(b"".join(out))

    def finish(self) -> None:
        for stream in self._rest:
            self.write(stream, b"")

    def _append(self, data: bytes) -> None:
        """Write whole lines or none. On a full disk the lines are dropped."""
        with contextlib.suppress(OSError):
            if self._size > LOG_BYTES:
                self._set_aside()
            if data and os.write(self._file, data) == len(data):
                self._size += len(data)
            elif data:
                os.ftruncate(self._file, self._size)

    def _set_aside(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # the log was rotated before, but there was no room for a new file
            os.replace(self._path, self._path + ".1")
        fresh = self._open()
        os.close(self._file)
        self._file, self._size = fresh, 0


class Ends:
    """Both ends of a container's input and output: pipes, or one terminal."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.stdin: int | None = None  # our end, if the container has an input
        if task.get("tty"):
            ours, theirs = os.openpty()
            self.theirs = [theirs] * 3
            self.outputs = [(ours, "stdout")]
            self.stdin = os.dup(ours)
        else:
            out, err = os.pipe(), os.pipe()
            self.outputs = [(out[0], "stdout"), (err[0], "stderr")]
            self.theirs = [self._input(task), out[1], err[1]]
        if self.stdin is not None:
            os.set_blocking(self.stdin, False)

    def _input(self, task: dict[str, Any]) -> int:
        if not task.get("stdin"):
            return os.open(os.devnull, os.O_RDONLY)
        reads, self.stdin = os.pipe()
        return reads

    def use(self, tty: bool) -> None:
        """Use the container's ends as standard input, output and error. Called in the child process."""
        if tty:
            import termios

            fcntl.ioctl(self.theirs[0], termios.TIOCSCTTY, 0)
        for target, source in enumerate(self.theirs):
            os.dup2(source, target)

    def give_away(self) -> None:
        for descriptor in {*self.theirs}:
            os.close(descriptor)


class ContainerProcess:
    """The process of the container, with methods to start, terminate and kill it."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.pid = 0
        self.killed = False
        self.ends = Ends(task)

    def start(self, directory: str) -> str:
        """Fork the container's process, which begins only after its pid is on disk. Returns the error, or "".

        The error says why the process could not be executed.
        """
        go_read, go_write = os.pipe()
        failed_read, failed_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(go_write)
            self._become(go_read, failed_write)
        for descriptor in (go_read, failed_write):
            os.close(descriptor)
        self.ends.give_away()
        pids = {"shim": os.getpid(), "shim_start": start_time("self"), "child": self.pid, "started": time.time()}
        write_json(f"{directory}/pid.json", pids | {"child_start": start_time(self.pid)})
        os.write(go_write, b"g")
        os.close(go_write)
        failure = os.read(failed_read, 4096).decode()
        os.close(failed_read)
        return failure

    def _become(self, go: int, failed: int) -> None:
        """Execute the container's command. Called in the child process; never returns."""
        try:
            os.setsid()
            signal.setitimer(signal.ITIMER_REAL, 0)  # in case a signal came before the handlers were reset
            for number in HANDLED:
                signal.signal(number, signal.SIG_DFL)
            if not os.read(go, 1):
                os._exit(1)  # the guardian was killed
            if self.task.get("pids"):
                import foreground  # type: ignore[import-not-found]  # beside this file

                foreground.begin_inside(self.task["pids"])
            self.ends.use(bool(self.task.get("tty")))
            if self.task.get("report"):
                os.dup2(os.open(self.task["report"], os.O_WRONLY | os.O_CREAT, 0o600), REPORT_DESCRIPTOR)
            os.chdir(self.task["directory"])
            become(self.task, self.task["argv"], self.task["env"])
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            os.write(failed, f"{where}{error.strerror or error}".encode())
        except BaseException as error:
            os.write(failed, repr(error).encode())
        os._exit(128)

    def terminate(self) -> None:
        target = self.inner()
        if target:
            os.kill(target, signal.SIGTERM)
        else:
            # the container's process is not known yet: SIGALRM tries again
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)

    def kill(self) -> None:
        self.killed = True
        if self.task.get("pid_file"):
            target = self.inner()
            if target:
                os.kill(target, signal.SIGKILL)
        elif self.pid:
            os.killpg(self.pid, signal.SIGKILL)

    def inner(self) -> int:
        return inner_of(self.task, self.pid)


def inner_of(task: dict[str, Any], pid: int) -> int:
    """Return the pid of the process that signals are meant for, or 0 if there is none yet.

    That process may be a descendant of `pid`, the process that was started, or be named in a pid file.
    `task["depth"]` is the number of generations from `pid` down to that process.
    """
    if task.get("pid_file"):
        try:
            with open(task["pid_file"]) as stream:
                return int(stream.read())
        except (OSError, ValueError):
            return 0
    for _ in range(task["depth"]):
        pid = child_of(pid) if pid else 0
    return pid


def become(task: dict[str, Any], argv: list[str], environment: dict[str, str]) -> None:
    """Set privileges, groups and user as the task says, then execute a program. Returns only by raising OSError.

    `task` may lack an identity; then user and groups stay.
    """
    identity = task.get("identity") or {}
    if identity.get("no_new_privileges"):
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    if "user" in identity:
        os.setgroups(identity["groups"])
        os.setresgid(*[identity["group"]] * 3)
        os.setresuid(*[identity["user"]] * 3)
    execute(argv, environment)


def prctl(option: int, value: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def execute(argv: list[str], environment: dict[str, str]) -> None:
    """Replace this process with a program that is searched in PATH. Raises OSError if it cannot be run.

    `os.execvpe` would load a module first, but at this point the visible files may be those of an image, and the user
    may not be allowed to read ours.
    """
    problem = errno.ENOENT
    places = (
        [""] if "/" in argv[0] else [f"{place or '.'}/" for place in environment.get("PATH", os.defpath).split(":")]
    )
    for place in places:
        try:
            os.execve(place + argv[0], argv, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError:
            problem = errno.EACCES  # another directory may hold a program that may be run
        except OSError as error:
            problem = error.errno or errno.ENOEXEC
            break
    raise OSError(problem, not_executed(argv[0], os.strerror(problem)))


def not_executed(program: str, why: str) -> str:
    """Return the message that a program cannot be executed, worded as by container runtimes, from the system's `why`.

    A program without a slash that is missing was looked for in $PATH.
    """
    words = why[:1].lower() + why[1:]
    if why == os.strerror(errno.ENOENT):
        words = f"stat {program}: {words}" if "/" in program else "executable file not found in $PATH"
    return f'exec: "{program}": {words}'


def child_of(parent: int) -> int:
    """Return the pid of the first child of a process, or 0 if it has none."""
    return next(children_of(parent), 0)


def children_of(parent: int) -> Iterator[int]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stream:
                    if int(stream.read().rpartition(")")[2].split()[1]) == parent:
                        yield int(entry)
            except OSError:
                continue


class ContainerWatch:
    """The guardian's event loop: copies output and starts requested commands until the container has ended."""

    def __init__(self, workload: ContainerProcess, log: ContainerLog, directory: str) -> None:
        self._workload = workload
        self._log = log
        self._poller = select.poll()
        self._ready: dict[int, Callable[[int], None]] = {}
        self._status: int | None = None
        self._outputs: dict[int, str] = {}  # open outputs, each with its stream
        self._sessions: dict[int, Any] = {}  # by pid
        self._console: Any = None  # set when the first client attaches
        self._listener = listen(directory)
        self.on(self._listener.fileno(), self._asked)
        self.on(children_ended(), self._reap)

    def follow(self) -> int:
        """Copy output until the container has ended. Returns its wait status.

        Output that other processes hold open is read for at most `DRAIN_SECONDS` after the end.
        """
        self._outputs = dict(self._workload.ends.outputs)
        self._read_on()
        deadline = None
        while self._status is None or (self._outputs and time.monotonic() < (deadline or 0.0)):
            patience = DRAIN_SECONDS * 1000 if self._status is not None or self._lets_wait() else None
            for descriptor, _ in self._poller.poll(patience):
                if descriptor in self._ready:
                    self._ready[descriptor](descriptor)
            self._read_on()
            if self._status is not None and deadline is None:
                deadline = time.monotonic() + DRAIN_SECONDS
        self._log.finish()
        if self._console is not None:
            self._console.finish(outcome(self._status)["code"])
        return self._status

    def on(self, descriptor: int, act: Callable[[int], None], event: int = select.POLLIN) -> None:
        self._ready[descriptor] = act
        self._poller.register(descriptor, event)

    def off(self, descriptor: int) -> None:
        if self._ready.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)

    def _read_on(self) -> None:
        for descriptor in self._outputs:
            if self._lets_wait():
                self.off(descriptor)
            elif descriptor not in self._ready:
                self.on(descriptor, self._copy)

    def _lets_wait(self) -> bool:
        """Whether output is not read now because an attached client is behind. False after the container's end."""
        ends = self._status is not None or self._workload.killed
        return not ends and self._console is not None and self._console.is_behind

    def _copy(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, 65536)
        except OSError:  # EIO: no process has the terminal open any more
            data = b""
        if not data:
            self.off(descriptor)
            del self._outputs[descriptor]
            return
        self._log.write(self._outputs[descriptor], data)
        if self._console is not None:
            self._console.write(self._outputs[descriptor], data)

    def _reap(self, descriptor: int) -> None:
        """Handle every child that has ended: the container, a command in it, or an orphaned process."""
        with contextlib.suppress(BlockingIOError):
            os.read(descriptor, 4096)
        with contextlib.suppress(ChildProcessError):
            while self._status is None:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self._workload.pid:
                    self._ended(status)
                elif pid in self._sessions:
                    self._finished(self._sessions[pid], status)
                elif not pid:
                    break

    def _ended(self, status: int) -> None:
        self._status = status
        self.off(self._listener.fileno())
        kill_rest(self._workload.pid)
        for session in self._sessions.values():
            session.kill()
            session.end(os.waitpid(session.pid, 0)[1])
        kill_descendants()

    def _asked(self, _: int) -> None:
        import sessions  # type: ignore[import-not-found]  # beside this file; loaded for the first command only

        request = sessions.receive(self._listener)
        if request is not None and request.words.get("attach"):
            self._attach(request)
        elif request is not None:
            session = sessions.start(request, self._workload.task, self._workload.inner, become)
            if session is not None:
                self._sessions[session.pid] = session
                self.on(session.fileno(), lambda _: session.kill())  # the agent closed the connection

    def _attach(self, request: Any) -> None:
        import console  # type: ignore[import-not-found]  # beside this file

        if self._console is None:
            task = self._workload.task
            once, tty = bool(task.get("stdin_once")), bool(task.get("tty"))
            self._console = console.Console(self, self._workload.ends.stdin, once, tty)
        self._console.attach(request.connection, request.descriptors, bool(request.words.get("stdin")))

    def _finished(self, session: Any, status: int) -> None:
        self.off(session.fileno())
        session.kill()  # processes that the command left behind
        session.end(status)
        del self._sessions[session.pid]


def listen(directory: str) -> Any:
    """Create the socket for commands in the directory. Binds via a descriptor, since socket paths must be short."""
    import _socket

    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    here = os.open(directory, os.O_PATH)
    mask = os.umask(0o177)
    listener.bind(f"/proc/self/fd/{here}/exec")
    os.umask(mask)
    os.close(here)
    listener.listen(128)
    return listener


def kill_rest(group: int) -> None:
    """Kill all processes in a container's process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def kill_descendants() -> None:
    """Kill processes that left the container's process group and wait for their end, before its devices are released."""
    deadline = time.monotonic() + LEFTOVER_SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
            for pid in children_of(os.getpid()):  # children of killed processes become our children
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(LEFTOVER_LOOK_SECONDS)


def children_ended() -> int:
    """Return a descriptor that becomes readable when a child has ended.

    The descriptor is not blocking.
    """
    reads, writes = os.pipe()
    for descriptor in (reads, writes):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reads


def outcome(status: int) -> dict[str, Any]:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return {"code": 128 - code, "reason": "Error", "message": "", "signal": -code}
    return {"code": code, "reason": "Error" if code else "Completed", "message": ""}


def began(task: dict[str, Any]) -> bool:
    """Whether the program of an ended container was executed, as opposed to only bwrap or runc.

    Files of the task tell: its pid file, or bwrap's report. Without either the answer is True.
    """
    if task.get("pid_file"):
        return os.path.exists(task["pid_file"])
    if task.get("report"):
        with contextlib.suppress(OSError), open(task["report"]) as stream:
            return '"exit-code"' in stream.read()
        return False
    return True


def main(directory: str) -> None:
    os.chdir("/")
    lock = os.open(f"{directory}/lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if os.path.exists(f"{directory}/exit.json") or not os.path.exists(f"{directory}/task.json"):
        return
    with open(f"{directory}/task.json") as stream:
        task = json.load(stream)
    reserve(f"{directory}/exit.json", END_BYTES)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    workload = ContainerProcess(task)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, guarded(workload.terminate))
    signal.signal(signal.SIGUSR1, guarded(workload.kill))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = ContainerLog(f"{directory}/log")
    watch = ContainerWatch(workload, log, directory)
    failure = workload.start(directory)
    if not failure:
        say_ready()
    end = outcome(watch.follow())
    if failure or ("signal" not in end and end["code"] and not began(task)):
        end = {"code": 128, "reason": "StartError", "message": failure}
    write_json(f"{directory}/exit.json", end | {"finished": time.time()})


def say_ready() -> None:
    """Close standard output, which tells the agent that the container has started."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def guarded(act: Callable[[], None]) -> Callable[..., None]:
    """Return a signal handler that calls `act` and ignores OSError, because the process may already have ended."""

    def handler(*_: object) -> None:
        with contextlib.suppress(OSError):
            act()

    return handler


if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # -I leaves this directory out
    main(sys.argv[1])
