"""Commands inside a running container, started by its guardian: for `exec`, probes and hooks.

The agent connects to the socket `exec` in the attempt's directory. It sends one JSON object and the descriptors that
the command shall use (one terminal, or standard input, output and error), or those of a client to attach (`console`).
The answer is a line `{"failed": …}` if the program could not be started, and `{"code": …}` at the end. When the agent
closes the connection, or the container ends, the command is killed. `shim` loads this module on first use. Uses only
the standard library.
"""

from __future__ import annotations

import _socket
import contextlib
import fcntl
import json
import os
import signal
import struct
import termios
import time

MYPY = False
if MYPY:  # for the type checker alone: importing `typing` would make every start slower
    from collections.abc import Callable
    from typing import Any

_MOST_BYTES = 1 << 20  # size limit of a request; an argument list is at most twice as long
_SECONDS = 5.0  # timeout for receiving a request
_NS_GET_USERNS = 0xB701
_NAMESPACES = ("mnt", "pid", "ipc", "uts")
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_HANDLED = (signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD)
_SPAWN_FAILED = 127
_BUILDERS = ("bwrap", "runc")
_SETTLE_SECONDS, _SETTLE_LOOKS = 0.02, 250  # interval and number of checks whether a container has begun


class Session:
    """One command, from its request to its exit code."""

    def __init__(self, connection: Any, pid: int) -> None:
        self._connection = connection
        self.pid = pid

    def fileno(self) -> int:
        number: int = self._connection.fileno()
        return number

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def end(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.tell({"code": code if code >= 0 else 128 - code})
        self._connection.close()

    def tell(self, answer: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._connection.send(json.dumps(answer).encode() + b"\n")


class GuardianRequest:
    """A request to the guardian with the descriptors that came with it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.descriptors: list[int] = []
        self.words: dict[str, Any] = {}

    def give_up(self) -> None:
        self.connection.close()
        self.let_go()

    def let_go(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def receive(listener: Any) -> GuardianRequest | None:
    """Accept a connection and read its request. Returns None if the request is invalid."""
    number, _ = listener._accept()
    request = GuardianRequest(_socket.socket(fileno=number))
    request.connection.settimeout(_SECONDS)
    try:
        _read(request)
    except Exception:  # a bad request must not end the guardian
        request.give_up()
        return None
    return request


def start(
    request: GuardianRequest, task: dict[str, Any], inner: Callable[[], int], become: Callable[..., None]
) -> Session | None:
    """Start the requested command in a child process. Returns its session, or None if no process could be created.

    `inner` returns the pid of the container's process, or 0.
    """
    try:
        session = Session(request.connection, os.fork())
        if session.pid == 0:
            _run(session, task, request.words, request.descriptors, inner, become)
    except Exception:
        request.connection.close()
        return None
    finally:
        request.let_go()
    return session


def _read(request: GuardianRequest) -> None:
    connection = request.connection
    data, ancillary, _, _ = connection.recvmsg(_MOST_BYTES, _socket.CMSG_SPACE(3 * 4))
    for level, kind, payload in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            request.descriptors += struct.unpack(f"{len(payload) // 4}i", payload[: len(payload) // 4 * 4])
    while not data.endswith(b"\n"):
        more = connection.recv(_MOST_BYTES)
        if not more or len(data) > _MOST_BYTES:
            raise ValueError("no whole request")
        data += more
    request.words = json.loads(data)
    if len(request.descriptors) != (1 if request.words["tty"] else 3):
        raise ValueError("descriptors do not match the request")


def _run(
    session: Session,
    task: dict[str, Any],
    request: dict[str, Any],
    descriptors: list[int],
    inner: Callable[[], int],
    become: Callable[..., None],
) -> None:
    """Set up descriptors and namespaces in a child of the guardian and execute the command. Never returns."""
    code = _SPAWN_FAILED
    try:
        os.setsid()
        _attach(descriptors, request["tty"], session.fileno())

        def act() -> None:
            os.chdir(task["inside"])
            become(task, request["argv"], task["inside_env"])

        if task["depth"] or task["pid_file"]:
            code = _inside(_settled(inner), act, session, request)
        else:
            act()
    except OSError as error:
        session.tell({"failed": _described(error)})
    except BaseException as error:
        session.tell({"failed": repr(error)})
    os._exit(code)


def _attach(descriptors: list[int], tty: bool, connection: int) -> None:
    """Use the descriptors as standard streams and close all others of the guardian, whose lock shows that it lives.

    `descriptors` are standard input, output and error, or with `tty` the terminal alone. `connection` stays open.
    """
    for number in _HANDLED:
        signal.signal(number, signal.SIG_DFL)
    if tty:
        fcntl.ioctl(descriptors[0], termios.TIOCSCTTY, 0)
    for target, source in enumerate(descriptors * 3 if tty else descriptors):
        os.dup2(source, target)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != connection:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _described(error: OSError) -> str:
    where = f'exec: "{error.filename}": ' if error.filename else ""
    return f"{where}{error.strerror or error}"


# Entering the namespaces of a container


def _inside(pid: int, act: Callable[[], None], session: Session, request: dict[str, Any]) -> int:
    """Run `act` in the namespaces of a process with no more rights than that process. Returns the exit code.

    Raises OSError if the pid is 0 or a namespace cannot be entered. A signal's exit code is 128 plus its number.
    """
    if not pid:
        raise OSError("the container is starting or ending")
    import foreground  # type: ignore[import-not-found]  # beside this file; containers do not see it

    rights = _rights(pid)
    _join_groups(pid)
    with open("/proc/sys/kernel/cap_last_cap") as stream:
        capabilities = range(int(stream.read()) + 1)
    same_users = _enter(pid)
    child = os.fork()
    if child == 0:
        try:
            _limit(rights, capabilities, same_users)
            if request["tty"]:
                foreground.lead()
            act()
        except OSError as error:
            session.tell({"failed": _described(error)})
        os._exit(_SPAWN_FAILED)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):  # signals of the terminal are meant for the command
        signal.signal(number, signal.SIG_IGN)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _settled(inner: Callable[[], int]) -> int:
    """Wait until the container's process is no longer bwrap or runc. Returns its pid, or 0 if it has none.

    Gives up after a limited number of looks and returns whichever pid there is.
    """
    for _ in range(_SETTLE_LOOKS):
        pid = inner()
        with contextlib.suppress(OSError):
            if pid and not any(name in os.readlink(f"/proc/{pid}/exe") for name in _BUILDERS):
                return pid
        time.sleep(_SETTLE_SECONDS)
    return inner()


def _join_groups(pid: int) -> None:
    """Join the control groups of a process, which restrict access to devices. Only done as root.

    Control groups that cannot be joined are skipped.
    """
    if os.geteuid() != 0:
        return
    with open(f"/proc/{pid}/cgroup") as stream:
        lines = [line.rstrip("\n").split(":", 2) for line in stream]
    for _, controllers, path in lines:
        for base in (controllers.removeprefix("name="), "unified", "."):
            with contextlib.suppress(OSError), open(f"/sys/fs/cgroup/{base}{path}/cgroup.procs", "w") as stream:
                stream.write(str(os.getpid()))
                break


def _enter(pid: int) -> bool:
    """Enter the namespaces of a process. Returns whether user ids still have the same meaning as on the host.

    Raises OSError if a namespace cannot be entered.
    """
    files = {name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in (*_NAMESPACES, "user")}
    own = {name: os.stat(f"/proc/self/ns/{name}").st_ino for name in files}  # read before /proc changes
    owner = fcntl.ioctl(files["mnt"], _NS_GET_USERNS)
    users = own["user"]
    # Root may enter all namespaces. Other users may only after entering the user namespace.
    if os.geteuid() != 0 and os.fstat(owner).st_ino != users:
        _setns(owner)
        users = os.fstat(owner).st_ino
    for name in _NAMESPACES:
        if os.fstat(files[name]).st_ino != own[name]:
            _setns(files[name])
    if os.fstat(files["user"]).st_ino != users:
        _setns(files["user"])
        users = os.fstat(files["user"]).st_ino
    return users == own["user"]


def _setns(descriptor: int) -> None:
    _call("setns", descriptor, 0)


def _rights(pid: int) -> dict[str, list[str]]:
    """Return the fields of /proc/PID/status, each as a list of words."""
    with open(f"/proc/{pid}/status") as stream:
        return {name: rest.split() for name, _, rest in (line.partition(":") for line in stream)}


def _limit(rights: dict[str, list[str]], capabilities: range, same_users: bool) -> None:
    """Drop capabilities that the container's process does not have, and switch to its user and groups.

    With `same_users` the user ids of the container's process are valid here too.
    """
    # Root gets everything in its bounding set, so that must be limited to the capabilities of the container's
    # process.
    bounding = int(rights["CapBnd" if int(rights["Uid"][0]) else "CapPrm"][0], 16)
    for capability in capabilities:
        if not bounding >> capability & 1:
            _call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    user, group, groups = int(rights["Uid"][0]), int(rights["Gid"][0]), [int(word) for word in rights["Groups"]]
    if same_users and os.geteuid() == 0:
        os.setgroups(groups)
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    if rights["NoNewPrivs"] == ["1"]:
        _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _call(name: str, *arguments: int) -> None:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
