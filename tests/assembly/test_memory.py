"""Free memory goes back to the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dray.assembly import memory
from tests.waiting import SECONDS

RESIDENT = """
import asyncio, pathlib
from dray.assembly import memory

def resident():
    text = pathlib.Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) // 1024
"""
# Blocks that are smaller than those with pages of their own, and between them a few that stay: the heap cannot shrink.
FRAGMENTED = """
async def main():
    blocks = [bytearray(20_000) for _ in range(5_000)]
    most = resident()
    stay = blocks[::100]
    del blocks
    giving_back = asyncio.create_task(memory.give_back(0.01))
    while resident() > most - 80:
        await asyncio.sleep(0.01)
    giving_back.cancel()

asyncio.run(main())
"""
# One that is freed teaches glibc to take those of its size from the heap; it must not learn that.
LARGE = """
memory.keep_large_apart()
block = bytearray(2_000_000)
del block
blocks = [bytearray(2_000_000) for _ in range(100)]
most = resident()
stay = blocks[::10]
del blocks
assert resident() < most - 80, (most, resident())
"""


def has_malloc_trim() -> bool:
    return memory.trimming() is not None


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", RESIDENT + program], timeout=SECONDS, check=True)


@pytest.mark.skipif(not has_malloc_trim(), reason="the C library keeps what is free")
def test_what_lies_between_blocks_that_stay_is_given_back() -> None:
    run(FRAGMENTED)


@pytest.mark.skipif(not has_malloc_trim(), reason="the C library keeps what is free")
def test_large_blocks_go_back_when_they_are_freed() -> None:
    run(LARGE)


async def test_nothing_is_done_where_the_c_library_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    memory.keep_large_apart()
    assert memory.trimming() is None
    await memory.give_back()
