"""The list of files that begin first names files that there are."""

from __future__ import annotations

from pathlib import Path

from tests.distribution import LONGEST

ROOT = Path(__file__).parents[1]


def test_each_file_that_begins_first_exists() -> None:
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)
