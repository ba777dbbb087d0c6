"""The page of profiles is made from the profiles and their examples, and is current."""

from __future__ import annotations

import runpy

from dray.sim import profiles
from tests.docs.pages import ROOT


def test_the_page_of_profiles_is_current() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "profile_pages.py"))
    written = (ROOT / "docs" / "profiles.md").read_text()
    assert written == tool["page"](), "run tools/profile_pages.py"
    assert all(f"\n## {name}\n" in written for name in profiles.known())
