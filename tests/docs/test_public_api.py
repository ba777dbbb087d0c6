"""The page of the public API is made from the packages, and is correct."""

from __future__ import annotations

import re
import runpy
from importlib import import_module
from typing import Any

import pytest

from tests.docs.pages import ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "public_api.py"))
PACKAGES = TOOL["PACKAGES"]


def test_the_page_lists_the_names() -> None:
    """Descriptions are renewed with the page; names may never differ."""
    parts = re.split(r"^## ", (ROOT / "docs" / "public-api.md").read_text(), flags=re.M)
    written = {part.partition("\n")[0]: re.findall(r"^\| `(\w+)` \|", part, re.M) for part in parts[1:]}
    expected = {package.module: [*TOOL["names_of"](package)] for package in PACKAGES}
    assert written == expected | {"Types": []}, "run tools/public_api.py"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.module)
def test_each_name_is_exported_and_says_what_it_is(package: Any) -> None:
    module = import_module(package.module)
    names = TOOL["names_of"](package)
    assert names
    assert len(set(names)) == len(names)
    exported = getattr(module, "__all__", None)
    for name in names:
        assert exported is None or name in exported, f"{package.module} does not export {name}"
        assert not name.startswith("_")
        meaning = TOOL["meaning"](package.module, name)
        assert meaning.endswith((".", ".)", ":")), (
            f"{package.module}.{name} has no docstring that is a sentence: {meaning!r}"
        )


def test_the_list_is_small() -> None:
    assert 60 <= sum(len(TOOL["names_of"](package)) for package in PACKAGES) <= 120


def test_a_page_describes_each_package() -> None:
    for package in PACKAGES:
        assert package.module in (ROOT / "docs" / package.page).read_text(), package.module
