"""The documentation in the terminal: its contents, its pages, and what is said of one that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.cli import main
from tests.cli.running import outcome

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_without_a_page_the_contents_are_shown() -> None:
    status, text = outcome("docs")
    assert (status, text) == (0, (DOCS / "index.md").read_text())


def test_every_page_of_the_documentation_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    for page in DOCS.rglob("*.md"):
        name = str(page.relative_to(DOCS).with_suffix(""))
        assert (main(["docs", name]), capsys.readouterr().out) == (0, page.read_text())


def test_a_page_that_does_not_exist_is_refused_with_the_nearest_one() -> None:
    status, text = outcome("docs", "schedule")
    assert (status, "did you mean scheduler?" in text) == (2, True)


def test_the_place_of_a_page_is_told() -> None:
    status, text = outcome("docs", "node", "--path")
    assert (status, Path(text.strip()).read_text()) == (0, (DOCS / "node.md").read_text())
