"""The library answers as docs/autoscaling.md shows; its commands are tested with those of other pages (test_pages)."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "autoscaling.md"
DATA = ROOT / "src/dray/examples/autoscaling"


def test_the_files_of_the_page_are_those_of_the_test() -> None:
    shown = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
    assert (DATA / "groups.yaml").read_text() in shown


def test_the_library_answers_as_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.attempted > 5
    assert results.failed == 0
