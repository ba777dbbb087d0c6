"""The smallest program of docs/allocatorkit.md works, with the report that the page shows."""

from __future__ import annotations

import re
import sys

import pytest

from dray.allocatorkit import ask_program, cases
from tests.docs.pages import ROOT


@pytest.mark.wording
def test_the_smallest_program_gets_the_report_of_the_page() -> None:
    page = (ROOT / "docs" / "allocatorkit.md").read_text()
    [program] = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    [shown] = re.findall(r"^\$ dray allocator test .*\n(.*)\n", page, re.M)
    report = ask_program([sys.executable, "-c", program], cases())
    assert [*report.lines()][-1] == shown
    assert not report.passed()
