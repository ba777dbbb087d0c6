"""The page of a report, in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from bench._browser import ARGUMENTS, CHROMIUM
from dray.replay.comparison import compare
from dray.replay.measures import Prices
from dray.replay.page import page_of
from dray.replay.replaying import Replay, Setup
from dray.replay.report import Run, SimulationReport
from dray.sim import changes
from tests.replay.test_replay import comes, story

pytestmark = pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason="needs Chromium")


def report() -> SimulationReport:
    timeline = story(*(comes(float(number), f"<p{number:02}>", 1 + number % 2, 30.0) for number in range(20)))
    prices = Prices([("", "", 2.0)])
    before = Replay(timeline, is_free=True, prices=prices).run()
    more = Setup(prepare=lambda cluster: changes.add_nodes(cluster, 2, "node-0"))
    after = Replay(timeline, more, is_free=True, prices=prices).run()
    runs = Run("as it was", before.figures), Run("with the change", after.figures)
    return SimulationReport("a <b>file</b>", runs, compare(before.placements, after.placements))


@pytest.fixture(scope="module", params=["light", "dark"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    path: Path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_of(report()), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        opened = browser.new_page(viewport={"width": 900, "height": 1000}, color_scheme=request.param)
        asked: list[str] = []
        said: list[str] = []
        opened.on("request", lambda one: asked.append(one.url))
        opened.on("console", lambda one: said.append(one.text))
        opened.goto(path.as_uri())
        assert asked == [path.as_uri()]  # no request leaves the machine
        assert said == []
        yield opened
        browser.close()


def test_the_figures_of_both_runs_stand_side_by_side(page: Page) -> None:
    assert page.locator("h1").inner_text() == "dray replay: a <b>file</b>"
    assert page.locator("thead th").all_inner_texts() == ["figure", "as it was", "with the change"]
    assert page.get_by_role("row", name="nodes, devices").locator("td").all_inner_texts() == ["2, 4", "4, 8"]
    assert page.get_by_role("row", name="pods that came").locator("td").all_inner_texts() == ["20", "20"]


def test_every_plot_has_a_line_for_each_run_within_its_frame(page: Page) -> None:
    for name in ("utilisation over time", "largest claim of gpu.example.com over time"):
        plot = page.get_by_role("img", name=name)
        frame = plot.bounding_box()
        lines = plot.locator("polyline")
        assert lines.count() == 2
        assert frame is not None
        assert frame["width"] > 500
        for number in range(2):
            box = lines.nth(number).bounding_box()
            assert box is not None
            assert box["width"] > 100
            assert box["y"] >= frame["y"] - 1
            assert box["y"] + box["height"] <= frame["y"] + frame["height"] + 1


def test_waiting_and_placements_are_told_and_nothing_overflows(page: Page) -> None:
    assert page.get_by_role("img", name="waiting by reason").locator("rect").count() == 2
    assert "different" in page.locator("h2:has-text('Placements') + p").inner_text()
    assert "default/<p" in page.locator("li").first.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
