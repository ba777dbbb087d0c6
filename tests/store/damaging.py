"""Databases with some history, and damaged copies of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from dray.store import Op, SqliteLog

State = dict[str, bytes | None]


async def write(path: Path, copy: Path) -> State:
    """A database with history, deletions, compaction and large values, and the copy of one whose process was killed."""
    log = await SqliteLog.open(path)
    for number in range(120):
        value = (b"%04d" % number) * (20 if number % 30 else 8000)
        await log.commit([Op(f"pods/{number % 70}", value), Op(f"events/{number}", b"{}", ttl=1e9)])
    await log.compact(60)
    for number in range(0, 120, 3):
        await log.commit([Op(f"events/{number}", None)])
    state = {version.key: version.value for version in (await log.load()).versions}
    for ending in ("", "-wal", ".head"):
        shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
    await log.close()
    return state


async def opened(path: Path) -> State:
    log = await SqliteLog.open(path)
    try:
        return {version.key: version.value for version in (await log.load()).versions}
    finally:
        await log.close()


def damaged(source: Path, target: Path, ending: str, change: Callable[[bytearray], None]) -> Path:
    """A copy whose file with that ending is changed."""
    target.mkdir(exist_ok=True)
    for file in target.iterdir():
        file.unlink()
    for each in ("", "-wal", ".head"):
        if Path(f"{source}{each}").exists():
            shutil.copyfile(f"{source}{each}", target / f"state.db{each}")
    content = bytearray((target / f"state.db{ending}").read_bytes())
    change(content)
    (target / f"state.db{ending}").write_bytes(content)
    return target / "state.db"
