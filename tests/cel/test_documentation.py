"""The examples in the documentation work."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "cel.md"


def test_every_example_of_the_page_gives_what_it_shows() -> None:
    results = doctest.testfile(str(DOCUMENT), module_relative=False, encoding="utf-8")
    assert results.attempted > 10
    assert results.failed == 0


@pytest.mark.parametrize("name", ["dray.cel", "dray.api.quantity", "dray.api.semver", "dray.api.quoting"])
def test_every_example_of_a_module_gives_what_it_shows(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
