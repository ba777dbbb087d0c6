"""The checksums of rows: no column can change without a trace."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dray.store.journal import create
from dray.store.scribe import LogRow, Writer, checksum, damage, number

ROW: LogRow = (number(7, 1), "pods/a", b"value", 5, 12.5)


@pytest.mark.parametrize(
    "other",
    [
        (number(8, 1), "pods/a", b"value", 5, 12.5),
        (number(7, 2), "pods/a", b"value", 5, 12.5),
        (number(7, 1), "pods/b", b"value", 5, 12.5),
        (number(7, 1), "pods/a", b"valuf", 5, 12.5),
        (number(7, 1), "pods/a", b"", 5, 12.5),
        (number(7, 1), "pods/a", None, 5, 12.5),
        (number(7, 1), "pods/a", b"value", 6, 12.5),
        (number(7, 1), "pods/a", b"value", 5, 13.0),
        (number(7, 1), "pods/a", b"value", 5, None),
    ],
)
def test_rows_that_differ_have_different_checksums(other: LogRow) -> None:
    assert checksum(*other) != checksum(*ROW)


def test_a_deletion_is_no_empty_value() -> None:
    key, created = "pods/a", 5
    assert checksum(number(7), key, None, created, None) != checksum(number(7), key, b"", created, None)


def test_a_changed_compaction_is_found(tmp_path: Path) -> None:
    create(tmp_path / "db")
    with closing(Writer(str(tmp_path / "db"))) as writer:
        writer.write([ROW], [(3, "pods/old")], 3)
        assert damage(writer.database, 7) == ""
    with closing(sqlite3.connect(tmp_path / "db", isolation_level=None)) as database:
        assert database.execute("SELECT revision FROM compacted").fetchone() == (3,)
        database.execute("UPDATE compacted SET revision = 2")
        assert "last compaction" in damage(database, 7)
