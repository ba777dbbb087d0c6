"""The compatibility page is made from the results of its tool, whose clients have the versions that are pinned."""

from __future__ import annotations

import json
import runpy
import tomllib

from tests.docs.pages import ROOT

PLACE = ROOT / "tools" / "compatibility"


def test_the_page_is_made_of_the_last_results() -> None:
    tool = runpy.run_path(str(PLACE / "run.py"))
    assert (ROOT / "docs" / "compatibility.md").read_text() == tool["page"](), "run tools/compatibility/run.py --page"


def test_the_results_are_of_the_pinned_versions() -> None:
    clients = tomllib.loads((PLACE / "clients.toml").read_text())["client"]
    results = json.loads((PLACE / "results.json").read_text())
    assert {one["name"]: one["packages"] for one in clients} == {name: one["packages"] for name, one in results.items()}


def test_every_test_that_is_named_exists() -> None:
    sections = tomllib.loads((PLACE / "others.toml").read_text())["section"]
    assert not [row["test"] for section in sections for row in section["rows"] if not (ROOT / row["test"]).exists()]
