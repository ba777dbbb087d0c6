"""Five thousand nodes with eight devices each: the first picture comes soon, and the page stays quick while it scrolls.

Times are printed. They are asserted loosely, since the machine may be busy; a page that draws all devices instead of those
in view misses them by far.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from bench._browser import LONG_TASKS, SCROLL, WATCH, Scrolling
from dray.testing import Cluster
from tests.waiting import wait_until
from tests.web.pages.browsing import address, administrator, visiting

NODES, DEVICES = 5000, 8


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=NODES, devices=DEVICES) as running:
        wait_until(lambda: len(running.list("resourceslices")) == NODES)
        yield running


@pytest.mark.slow
def test_forty_thousand_devices_are_shown_and_scrolled(browser: Browser, cluster: Cluster) -> None:
    with visiting(browser, address(cluster), administrator(cluster)) as visit:
        visit.open()  # the server's picture is made for the first page
        visit.page.add_init_script(WATCH)
        began = time.monotonic()
        page = visit.open()
        first = time.monotonic() - began
        expect(page.locator(".stat", has_text="gpu.example.com").locator(".value")).to_have_text(
            "40,000 of 40,000 free"
        )
        loading = page.evaluate(LONG_TASKS)
        scrolling = Scrolling.of(*page.evaluate(SCROLL))
        print(f"first picture {first:.2f} s, tasks over 50 ms while loading {loading}; {scrolling}")
        assert first < 10
        assert scrolling.median < 16
