"""The examples in documentation and docstrings are right."""

import doctest
import importlib
from pathlib import Path

import pytest

MODULES = (
    "dray.api.descriptions",
    "dray.apiserver.wire.discovery",
    "dray.apiserver.write.patches.field_sets",
    "dray.apiserver.write.patches.json_patch",
    "dray.apiserver.write.patches.merge_patch",
    "dray.apiserver.write.patches.strategic_merge",
    "dray.apiserver.write.patches.tree",
    "dray.api.cells",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_examples_of_the_page():
    page = Path(__file__).parents[4] / "docs" / "codecs.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
