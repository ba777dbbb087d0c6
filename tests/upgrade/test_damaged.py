"""A database of an older version that is damaged is not brought up to date, but refused."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from dray.store import SqliteLog, Unreadable

ARCHIVE = Path(__file__).parents[1] / "data" / "cluster-0.1.0.tar.xz"


async def test_pages_are_checked_before_checksums_are_made(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    path = tmp_path / "cluster" / "state.db"
    (tmp_path / "cluster" / "state.db-wal").unlink()
    content = bytearray(path.read_bytes())
    leaves = [at for at in range(16384, len(content), 16384) if content[at] == 13]
    cells = leaves[0] + 3
    content[cells : cells + 2] = (int.from_bytes(content[cells : cells + 2], "big") - 1).to_bytes(
        2, "big"
    )  # one row less
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=r"state.db is not a readable database: .*; .dray snapshot restore"):
        await SqliteLog.open(path)
