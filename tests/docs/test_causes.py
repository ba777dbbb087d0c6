"""The page of causes is made from the types, and is current."""

from __future__ import annotations

import runpy

import pytest

from dray.api.reasons.causes import CAUSES
from tests.docs.pages import ROOT


@pytest.mark.wording
def test_the_page_of_causes_is_current() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "cause_pages.py"))
    written = (ROOT / "docs" / "causes.md").read_text()
    assert written == tool["page"](), "run tools/cause_pages.py"
    assert all(f"\n## {code}\n" in written for code in CAUSES)
