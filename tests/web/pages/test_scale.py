"""Five thousand nodes with eight devices each: the first picture comes soon, and the page stays quick while it scrolls.

Times are printed. They are asserted loosely, since the machine may be busy; a page that draws all devices instead of those
in view misses them by far.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from dray.testing import Cluster
from tests.waiting import wait_until
from tests.web.pages.browsing import address, administrator, visiting

NODES, DEVICES = 5000, 8
WATCH = """
window.frames_ = []; window.tasks_ = [];
new PerformanceObserver((list) => { for (const one of list.getEntries()) tasks_.push(one.duration); })
  .observe({ type: "longtask", buffered: true });
const next = window.requestAnimationFrame.bind(window);
let frame = 0, spent = 0;
window.requestAnimationFrame = (draw) => next((at) => {
  const began = performance.now();
  draw(at);
  if (at !== frame) { if (frame) frames_.push(spent); frame = at; spent = 0; }
  spent += performance.now() - began;
});
"""
SCROLL = """async () => {
  frames_.length = tasks_.length = 0;
  const map = document.querySelector(".map");
  for (let i = 0; i < 90; i++) { map.scrollTop += 61; await new Promise((done) => setTimeout(done, 16)); }
  return [frames_.sort((a, b) => a - b), tasks_];
}"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("--nodes", str(NODES), "--devices", str(DEVICES)) as running:
        wait_until(lambda: len(running.list("resourceslices")) == NODES)
        yield running


def measured(page: Page) -> tuple[float, float, list[float]]:
    """Script time of a frame while scrolling, at the median and at the 95th of 100, and tasks over 50 ms."""
    frames, tasks = page.evaluate(SCROLL)
    assert len(frames) > 30
    return frames[len(frames) // 2], frames[int(len(frames) * 0.95)], tasks


@pytest.mark.slow
def test_forty_thousand_devices_are_shown_and_scrolled(browser: Browser, cluster: Cluster) -> None:
    with visiting(browser, address(cluster), administrator(cluster)) as visit:
        visit.open()  # the server's picture is made for the first page
        visit.page.add_init_script(WATCH)
        began = time.monotonic()
        page = visit.open()
        first = time.monotonic() - began
        expect(page.locator(".stat", has_text="Devices").locator(".value")).to_have_text("40,000")
        loading = page.evaluate("tasks_")
        median, most, tasks = measured(page)
        print(f"first picture {first:.2f} s, tasks over 50 ms while loading {loading}")
        print(f"script time a frame: median {median:.1f} ms, 95 of 100 {most:.1f} ms, tasks over 50 ms {tasks}")
        assert first < 10
        assert median < 16
