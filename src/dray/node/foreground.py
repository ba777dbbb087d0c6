"""Terminals and PID namespaces of containers under bwrap: part of a container's guardian.

A shell needs to lead the terminal's foreground process group, and to find the former leader again when it ends. It
cannot find a process outside its PID namespace. So the guardian enters the namespace first and takes the terminal
inside. `shim` and `sessions` load this module when needed. Uses only the standard library.
"""

from __future__ import annotations

import os
import signal

MYPY = False
if MYPY:  # for the type checker alone: importing `typing` would make every start slower
    from typing import Any

CLONE_NEWPID = 0x20000000
CLONE_NEWNS = 0x00020000
_MS_SLAVE = 0x4000 | 0x80000  # MS_SLAVE with MS_REC: mounts made here are not seen outside
_MS_HARMLESS = 2 | 4 | 8  # MS_NOSUID, MS_NODEV, MS_NOEXEC
_PR_SET_PDEATHSIG = 1


def libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def begin_inside(pids: str) -> None:
    """Continue as a child process inside a PID namespace: "new", or that of another process (a path). Needs root.

    A new child returns from this function. The original process waits for the child and exits with its exit code.
    Raises OSError if the namespace cannot be entered.
    """
    library = libc()
    if pids == "new":
        failed = library.unshare(CLONE_NEWPID)
    else:
        namespace = os.open(pids, os.O_RDONLY)
        failed = library.setns(namespace, CLONE_NEWPID)
        os.close(namespace)
    if failed:
        raise OSError("cannot enter the PID namespace")
    child = os.fork()
    if child == 0:
        os.setsid()
        end_with_parent(library)
        show_processes(library)
        return
    os.closerange(0, 256)  # a reader of a pipe waits until every copy of the other end is closed
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def show_processes(library: Any) -> None:
    """Mount a /proc that shows this namespace's processes; bwrap takes it over into the container.

    Raises OSError if /proc cannot be mounted.
    """
    library.unshare(CLONE_NEWNS)
    library.mount(None, b"/", None, _MS_SLAVE, None)
    if library.mount(b"proc", b"/proc", b"proc", _MS_HARMLESS, None):
        raise OSError("cannot mount /proc in the PID namespace")


def end_with_parent(library: Any) -> None:
    """Ask the kernel to kill this process when its parent ends."""
    library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def lead() -> None:
    """Become the foreground process group of the terminal at standard input, and die with the parent process."""
    end_with_parent(libc())
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
