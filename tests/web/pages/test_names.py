"""Names and values of the cluster are text: not markup, not direction, and no wider than the page."""

from __future__ import annotations

import pytest
from playwright.sync_api import ViewportSize, expect

from dray.testing import Cluster
from tests.web.pages.browsing import CLASS, NARROW, WIDE, Visit, let_wait

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"
TURNED = "\u202ereversed\u202d \u2067x"
LONG_NODE = ".".join(["n" * 63, "o" * 63, "d" * 63, "e" * 61])
LONG_POD = ".".join(["p" * 63, "q" * 63, "r" * 63, "s" * 61])
DRIVER = "hostile.example.com"
DRAWN = """
window.drawn = new Map();
const { fillText } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  window.drawn.set(text, x);
  fillText.call(this, text, x, y);
};
"""
"""Notes what is written on canvases, and how far right."""


@pytest.fixture(scope="module", autouse=True)
def hostile(cluster: Cluster) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": LONG_NODE}, "status": status})
    attributes = {"markup": {"string": MARKUP}, "turned": {"string": TURNED}}
    pool = {"name": "a/b", "generation": 1, "resourceSliceCount": 2}
    devices = [{"name": "d" * 63, "attributes": attributes}]
    content = {"driver": DRIVER, "nodeName": LONG_NODE, "pool": pool, "devices": devices}
    cluster.apply(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "hostile"}, "spec": content}
    )
    let_wait(cluster, LONG_POD, 9, f'device.driver == "{MARKUP}"')


def test_values_are_shown_as_they_are(visit: Visit) -> None:
    page = visit.open(f"#/map?sel=device:{DRIVER}/a/b/{'d' * 63}")
    details = page.get_by_role("complementary", name="Details")
    expect(details.get_by_text(MARKUP)).to_be_visible()
    turned = details.get_by_text(TURNED)
    expect(turned).to_be_visible()
    assert turned.evaluate("element => element.tagName") == "BDI"
    assert details.locator("img, script").count() == 0


def test_expressions_and_problems_are_shown_as_they_are(visit: Visit) -> None:
    page = visit.open(f"#/why?pod=default/{LONG_POD}")
    expect(page.locator(".story")).to_contain_text("needs 9 devices")
    page.goto(f"{visit.home}#/map")
    page.get_by_label("CEL expression").fill(f'device.driver == "{MARKUP}" && {MARKUP}')
    expect(page.locator("#cel-result .problem")).to_be_visible()
    assert page.locator("main script, main img").count() == 0


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_long_names_widen_nothing(visit: Visit, size: ViewportSize) -> None:
    visit.page.set_viewport_size(size)
    visit.open()
    for fragment in ("map?", "map?show=table&", f"why?pod=default/{LONG_POD}&", "claims?", "drivers?", "fits?"):
        page = visit.turn_to(f"#/{fragment}sel=node:{LONG_NODE}")
        expect(page.locator(f".view-{fragment.partition('?')[0]}")).to_be_visible()
        expect(page.get_by_role("complementary", name="Details")).to_contain_text(LONG_NODE)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), fragment


def test_the_map_has_the_names_of_drivers_above_their_devices(visit: Visit) -> None:
    visit.page.add_init_script(DRAWN)
    page = visit.open("#/map")
    page.wait_for_function("driver => window.drawn.has(driver)", arg=CLASS)
    places = dict(page.evaluate("[...window.drawn]"))
    [other] = [
        place for text, place in places.items() if text.startswith("ho")
    ]  # as much of it as one cell has room for
    assert other > places[CLASS], "each driver has columns of its own"


def test_the_map_says_the_whole_name_of_a_device(visit: Visit) -> None:
    page = visit.open(f"#/map?driver={DRIVER}")
    page.get_by_role("application").focus()
    expect(page.locator("#say")).to_contain_text(f"{'d' * 63} on {LONG_NODE}, Incomplete pool, driver {DRIVER}")


def test_a_class_of_the_cluster_is_not_lost_among_hostile_names(visit: Visit) -> None:
    page = visit.open(f"#/map?class={CLASS}&show=table")
    expect(page.locator(".view-map tbody tr")).to_have_count(12)
