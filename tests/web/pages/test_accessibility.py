"""The page as axe-core judges it: no serious and no critical violation in any view, in light and in dark."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped] # it has none
from playwright.sync_api import Browser, Page, expect

from dray.testing import Cluster
from tests.web.pages.browsing import CLASS, address, administrator, let_wait, run, taint, visiting

VIEWS = {  # and what is there when the view is complete
    f"map?show=both&sel=device:{CLASS}/node-0/gpu-0&cel=device.driver+%3D%3D+%22x%22": "#cel-result strong",
    "why?pod=default/greedy": ".funnel",
    "fits": ".classes tbody tr",
    "time": ".plot canvas[aria-label]",
    "claims?sel=claim:default/training": ".path a",
    "claims?list=pods&sel=pod:default/greedy": ".path a",
    "drivers?sel=node:node-0": "#inspector h2",
}


@pytest.fixture(scope="module", autouse=True)
def busy(cluster: Cluster) -> None:
    run(cluster, "training", 2)
    let_wait(cluster, "greedy", 9)
    cluster.apply(taint("sick", "node-1", "gpu-1"))


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_serious_violation(browser: Browser, cluster: Cluster, scheme: str) -> None:
    with visiting(browser, address(cluster), administrator(cluster), color_scheme=scheme) as visit:
        visit.open()
        for view, complete in VIEWS.items():
            page = visit.turn_to(f"#/{view}")
            expect(page.locator(complete).first).to_be_visible()
            assert violations(page) == [], view


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_form_to_sign_in_has_no_serious_violation(browser: Browser, cluster: Cluster, scheme: str) -> None:
    with visiting(browser, address(cluster), color_scheme=scheme) as visit:
        visit.page.goto(visit.home)
        expect(visit.page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert violations(visit.page) == []
