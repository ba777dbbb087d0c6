"""Terminals in containers with processes of their own, and containers among the processes of others: part of a
container's guardian.

A shell wants to be the leader of the terminal's foreground, and to find that leader again when it ends. It finds no
process that is outside of its namespace. So the namespace is entered first, and the terminal is taken inside of it.
Loaded by `shim` and `sessions` when it is needed; the standard library alone.
"""

from __future__ import annotations

import os
import signal

MYPY = False
if MYPY:  # for the type checker alone: importing `typing` would make every start slower
    from typing import Any

CLONE_NEWPID = 0x20000000
CLONE_NEWNS = 0x00020000
_MS_SLAVE = 0x4000 | 0x80000  # and what is below: nothing that is mounted here is seen outside
_MS_HARMLESS = 2 | 4 | 8  # no set-user-id programs, no devices, no programs
_PR_SET_PDEATHSIG = 1


def libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def begin_inside(pids: str) -> None:
    """Go on as a process of a namespace: of another process (a path), or of a new one, with its /proc. Only root can.

    The process that this was waits, and ends as the new one does.
    """
    library = libc()
    if pids == "new":
        failed = library.unshare(CLONE_NEWPID)
    else:
        namespace = os.open(pids, os.O_RDONLY)
        failed = library.setns(namespace, CLONE_NEWPID)
        os.close(namespace)
    if failed:
        raise OSError("the namespace of processes cannot be entered")
    child = os.fork()
    if child == 0:
        os.setsid()
        end_with_parent(library)
        show_processes(library)
        return
    os.closerange(0, 256)  # whoever reads from pipes waits until nobody holds their other end
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def show_processes(library: Any) -> None:
    """Have the processes of this namespace at /proc, which bwrap takes over into the container."""
    library.unshare(CLONE_NEWNS)
    library.mount(None, b"/", None, _MS_SLAVE, None)
    if library.mount(b"proc", b"/proc", b"proc", _MS_HARMLESS, None):
        raise OSError("the processes of the namespace cannot be shown")


def end_with_parent(library: Any) -> None:
    library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def lead() -> None:
    """Be the foreground of the terminal at standard input, and end with the parent, which is outside."""
    end_with_parent(libc())
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
