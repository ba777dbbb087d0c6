"""The documentation site is made without a warning, and everything can be reached in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.waiting import SECONDS


@pytest.mark.slow
def test_the_site_has_every_page_and_no_warning(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "tools" / "site" / "build.py", tmp_path / "site"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=5 * SECONDS, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    pages = {page.stem for page in (ROOT / "docs").rglob("*.md")} | {"commands", "python"}
    assert pages <= {page.stem for page in (tmp_path / "site").rglob("*.html")}
    pages -= {page.stem for page in (ROOT / "docs").glob("*/*.md")}  # which the page of their directory links to
    index = (tmp_path / "site" / "index.html").read_text()
    assert [page for page in pages - {"index"} if f'href="{page}.html"' not in index] == []
    assert "allocate(" in (tmp_path / "site" / "python.html").read_text()
    assert not re.search(r'(src="|rel="stylesheet"[^>]*href=")http', index)  # it can be read offline
