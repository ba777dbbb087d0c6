"""CPU time and memory used by containers and the machine, as the kernel reports them in /proc.

A container's processes are the descendants of its guardian. Memory is the sum of the resident memory of each process,
so pages that processes share count several times. Left out: rates, which a caller can compute from two values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


class ContainerUsage(NamedTuple):
    cpu: float  # seconds so far
    memory: int  # bytes now


class _Process(NamedTuple):
    parent: int
    usage: ContainerUsage


def of_descendants(guardians: Mapping[int, T]) -> dict[T, ContainerUsage]:
    """Return the total usage of the descendants of each guardian, by the guardian's value in the mapping.

    The keys of `guardians` are pids. A guardian without descendants has usage 0.
    """
    processes = dict(_processes())
    found: dict[T, ContainerUsage] = dict.fromkeys(guardians.values(), ContainerUsage(0.0, 0))
    for pid, process in processes.items():
        guardian = _guardian(process.parent, processes, guardians) if pid not in guardians else 0
        if guardian:
            who = guardians[guardian]
            found[who] = ContainerUsage(found[who].cpu + process.usage.cpu, found[who].memory + process.usage.memory)
    return found


def _guardian(pid: int, processes: Mapping[int, _Process], guardians: Mapping[int, T]) -> int:
    """Return the nearest ancestor of a process (or itself) that is a guardian, or 0.

    Returns 0 if no ancestor is a guardian. The keys of both mappings are pids.
    """
    while pid and pid not in guardians:
        pid = processes[pid].parent if pid in processes else 0
    return pid


def _processes() -> Iterator[tuple[int, _Process]]:
    for name in os.listdir(_PROC):
        if name.isdigit():
            try:
                words = (_PROC / name / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:  # the process has ended meanwhile
                continue
            ticks = sum(int(word) for word in words[11:15])  # its own, and those of its ended children
            yield int(name), _Process(int(words[1]), ContainerUsage(ticks / _TICKS, int(words[21]) * _PAGE))


def of_machine() -> ContainerUsage:
    """Return the usage of the whole machine. Memory that is available at once does not count as used.

    CPU is in seconds since boot, of all processors together; memory is in bytes.
    """
    words = (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, interrupts, soft, *_ = map(int, words)
    memory = dict(line.split(":") for line in (_PROC / "meminfo").read_text().splitlines())
    used = int(memory["MemTotal"].split()[0]) - int(memory["MemAvailable"].split()[0])
    return ContainerUsage((user + nice + system + interrupts + soft) / _TICKS, used * 1024)
