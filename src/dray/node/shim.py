"""The guardian of one container: starts it, writes its log, notes how it ended, and outlives the agent.

Runs as a program of its own, `python -I -S shim.py DIRECTORY`, with the standard library alone, since there is one for
every container; it closes its standard output when the container runs or has failed. The directory holds `task.json`; the guardian holds a lock on `lock` as long as it lives, writes
`pid.json` before the container may begin and `exit.json` at its end. SIGTERM is passed on, SIGUSR1 ends everything.
A directory that is gone, or has an `exit.json` at the start, means that the attempt was given up: nothing is started.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time

MYPY = False
if MYPY:  # for the type checker alone: importing `typing` would make every start slower
    from collections.abc import Callable
    from typing import Any

LOG_BYTES = 10 * 1024 * 1024  # a log that grows beyond is set aside once; as much as Kubernetes keeps by default
LINE_BYTES = 16 * 1024  # longer lines are written in pieces, as container runtimes do
AGAIN_SECONDS = 0.05  # until SIGTERM is passed on again to a container that was about to begin
DRAIN_SECONDS = 0.2  # how long to read on after the end, should something still hold the pipes


def write_json(path: str, value: dict[str, Any]) -> None:
    """Write a whole file or none."""
    with open(path + ".new", "w") as stream:
        json.dump(value, stream)
    os.replace(path + ".new", path)


def start_time(pid: int | str) -> int:
    """When a process started, in ticks since boot: with the pid, its identity."""
    with open(f"/proc/{pid}/stat") as stream:
        return int(stream.read().rpartition(")")[2].split()[19])


class Log:
    """The log file: each line with its time, its stream, and F for a full line or P for a piece."""

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
        if data:
            self._size += os.write(self._file, data)
        if self._size > LOG_BYTES:
            os.close(self._file)
            os.replace(self._path, self._path + ".1")
            self._file = self._open()
            self._size = 0


class Workload:
    """The process of the container, and how signals reach it."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task
        self.pid = 0

    def start(self, directory: str) -> tuple[int, int, str]:
        """Fork; the child begins only after its pid is on disk. Returns the read ends of its output, or an error."""
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        go_read, go_write = os.pipe()
        failed_read, failed_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(go_write)
            self._become(go_read, out_write, err_write, failed_write)
        for descriptor in (out_write, err_write, go_read, failed_write):
            os.close(descriptor)
        pids = {"shim": os.getpid(), "shim_start": start_time("self"), "child": self.pid, "started": time.time()}
        write_json(f"{directory}/pid.json", pids | {"child_start": start_time(self.pid)})
        os.write(go_write, b"g")
        os.close(go_write)
        failure = os.read(failed_read, 4096).decode()
        os.close(failed_read)
        return out_read, err_read, failure

    def _become(self, go: int, out: int, err: int, failed: int) -> None:
        """In the child: become the container."""
        try:
            os.setsid()
            signal.setitimer(signal.ITIMER_REAL, 0)  # should a signal have come before its handler is gone
            for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGINT, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            if not os.read(go, 1):
                os._exit(1)  # the guardian was killed
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.chdir(self._task["directory"])
            os.execvpe(self._task["argv"][0], self._task["argv"], self._task["env"])
        except OSError as error:
            where = self._task["argv"][0] if error.filename is None else error.filename
            os.write(failed, f"{where}: {error.strerror}".encode())
        except BaseException as error:
            os.write(failed, repr(error).encode())
        os._exit(128)

    def terminate(self) -> None:
        target = self._inner()
        if target:
            os.kill(target, signal.SIGTERM)
        else:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)  # it is not known yet who is meant: SIGALRM tries again

    def kill(self) -> None:
        if self._task.get("pid_file"):
            target = self._inner()
            if target:
                os.kill(target, signal.SIGKILL)
        elif self.pid:
            os.killpg(self.pid, signal.SIGKILL)

    def _inner(self) -> int:
        """The process that a signal is meant for, which may be a descendant of the one that was started."""
        if self._task.get("pid_file"):
            try:
                with open(self._task["pid_file"]) as stream:
                    return int(stream.read())
            except (OSError, ValueError):
                return 0
        pid: int = self.pid
        for _ in range(self._task["depth"]):
            pid = child_of(pid) if pid else 0
        return pid


def child_of(parent: int) -> int:
    """The first child of a process, 0 for none."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stream:
                    if int(stream.read().rpartition(")")[2].split()[1]) == parent:
                        return int(entry)
            except OSError:
                continue
    return 0


def follow(workload: Workload, log: Log, out: int, err: int) -> int:
    """Copy output until the container has ended; the wait status."""
    streams = {out: "stdout", err: "stderr"}
    ended = os.pidfd_open(workload.pid)
    poller = select.poll()
    for descriptor in (*streams, ended):
        poller.register(descriptor, select.POLLIN)
    deadline = 0.0
    status = None
    while status is None or (streams and time.monotonic() < deadline):
        for descriptor, _ in poller.poll(None if status is None else DRAIN_SECONDS * 1000):
            if descriptor == ended:
                _, status = os.waitpid(workload.pid, 0)
                poller.unregister(ended)
                kill_rest(workload.pid)
                deadline = time.monotonic() + DRAIN_SECONDS
                continue
            data = os.read(descriptor, 65536)
            if data:
                log.write(streams[descriptor], data)
            else:
                poller.unregister(descriptor)
                del streams[descriptor]
    log.finish()
    return status


def kill_rest(group: int) -> None:
    """What a container leaves behind ends with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def outcome(status: int) -> dict[str, Any]:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return {"code": 128 - code, "reason": "Error", "message": "", "signal": -code}
    return {"code": code, "reason": "Error" if code else "Completed", "message": ""}


def main(directory: str) -> None:
    os.chdir("/")
    lock = os.open(f"{directory}/lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if os.path.exists(f"{directory}/exit.json") or not os.path.exists(f"{directory}/task.json"):
        return
    with open(f"{directory}/task.json") as stream:
        task = json.load(stream)
    workload = Workload(task)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, guarded(workload.terminate))
    signal.signal(signal.SIGUSR1, guarded(workload.kill))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = Log(f"{directory}/log")
    out, err, failure = workload.start(directory)
    if not failure:
        say_ready()
    status = follow(workload, log, out, err)
    end = outcome(status)
    if failure:
        end = {"code": 128, "reason": "StartError", "message": failure}
    write_json(f"{directory}/exit.json", end | {"finished": time.time()})


def say_ready() -> None:
    """The agent waits for the end of our output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def guarded(act: Callable[[], None]) -> Callable[..., None]:
    """A signal that comes too late is no error."""

    def handler(*_: object) -> None:
        with contextlib.suppress(OSError):
            act()

    return handler


if __name__ == "__main__":
    main(sys.argv[1])
