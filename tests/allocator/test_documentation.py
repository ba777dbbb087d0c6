"""The examples in the documentation work."""

import doctest
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "allocator.md"


@pytest.mark.wording
def test_every_example_gives_what_it_shows() -> None:
    results = doctest.testfile(str(DOCUMENT), module_relative=False, encoding="utf-8")
    assert results.attempted > 20
    assert results.failed == 0
