"""`python -m tests.hostile.turns FILE COMMAND …`: run a command of dray and write every long turn of its event loop to FILE.

A turn is one round of the event loop: all callbacks that were ready, and no more. It is measured in processor time of the
loop's thread, so a busy machine makes no turn longer. While a turn is long, a thread beside the loop notes what runs, so
that FILE names the culprits. FILE.memory says every two seconds how much memory is in use. Left out: judging (`flood`).
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import IO, Any

import uvloop

from dray.cli import main

LONG_SECONDS = 0.010  # turns from here on are written down
_BUSY_SECONDS = 0.0002  # of a turn: after it, the next turn follows at once and can be measured alone
_PAUSE_SECONDS = 0.001  # after a turn with less to do
_SAMPLE_SECONDS = 0.002
_DEEPEST = 40  # frames that are named of a stack
_MEMORY_SECONDS = 2.0


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of malloc.h."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def write_memory(path: Path) -> None:
    """Write again and again what is in use: blocks of Python's allocator, and MiB that the C library has given out.

    Resident memory says more and less: it contains what both allocators keep for later because a few small objects lie in it.
    """
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    while True:
        info = mallinfo()
        in_use = {"blocks": sys.getallocatedblocks(), "malloc": (info.uordblks + info.hblkhd) / (1 << 20)}
        path.with_suffix(".new").write_text(json.dumps(in_use))
        path.with_suffix(".new").replace(path)
        time.sleep(_MEMORY_SECONDS)


class TurnProbe:
    """Measures the turns of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, out: IO[str]) -> None:
        self._loop = loop
        self._out = out
        self._ident = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._ident)
        self._last = time.thread_time()
        self._stacks: list[list[str]] = []
        self._collecting = 0.0
        self._collected = 0.0
        self._generations: list[int] = []
        gc.callbacks.append(self._on_collection)
        loop.call_soon(self._tick)
        threading.Thread(target=self._sample, daemon=True, name="turn probe").start()

    def _tick(self) -> None:
        now = time.thread_time()
        seconds, self._last = now - self._last, now
        if seconds > LONG_SECONDS:
            turn = {
                "at": time.time(),
                "seconds": seconds,
                "collector": self._collected,
                "generations": self._generations,
                "stacks": self._stacks,
            }
            self._out.write(json.dumps(turn) + "\n")
            self._out.flush()
            self._last = time.thread_time()
        self._stacks, self._collected, self._generations = [], 0.0, []
        if seconds > _BUSY_SECONDS:
            self._loop.call_soon(self._tick)
        else:
            self._loop.call_later(_PAUSE_SECONDS, self._tick)

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if threading.get_ident() == self._ident:
            if phase == "start":
                self._collecting = time.thread_time()
            else:
                self._collected += time.thread_time() - self._collecting
                self._generations.append(info["generation"])

    def _sample(self) -> None:
        while True:
            time.sleep(_SAMPLE_SECONDS)
            is_long = time.clock_gettime(self._clock) - self._last > LONG_SECONDS / 2
            if is_long and (frame := sys._current_frames().get(self._ident)) is not None:
                self._stacks.append(_named(frame))


def _named(frame: FrameType | None) -> list[str]:
    """The functions that run, the innermost first."""
    found: list[str] = []
    while frame is not None and len(found) < _DEEPEST:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in ("uvloop", "runpy", "__main__"):
            found.append(f"{module}.{frame.f_code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return found


def run(path: str, arguments: list[str]) -> int:
    make = uvloop.new_event_loop

    def measured() -> asyncio.AbstractEventLoop:
        loop = make()
        TurnProbe(loop, out)
        return loop

    threading.Thread(target=write_memory, args=(Path(f"{path}.memory"),), daemon=True, name="memory probe").start()
    with open(path, "w") as out:
        uvloop.new_event_loop = measured  # type: ignore[assignment]  # a loop of the same kind, with a probe on it
        return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
