"""The library answers as docs/simulation.md shows; its commands are tested with those of other pages (test_pages)."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "simulation.md"


@pytest.mark.wording
def test_the_library_answers_as_the_page_shows() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.attempted > 5
    assert results.failed == 0
