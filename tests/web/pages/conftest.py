"""One browser and one small cluster a module. A browser's driver keeps an event loop, which no other module may meet."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from bench._browser import ARGUMENTS, CHROMIUM
from dray.testing import Cluster
from tests.web.pages.browsing import Visit, address, administrator, visiting


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip("chromium is not installed")
    with sync_playwright() as driver:
        window = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield window
        window.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, devices=4) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, cluster: Cluster) -> Iterator[Visit]:
    """The administrator, in a window of its own."""
    with visiting(browser, address(cluster), administrator(cluster)) as one:
        yield one
