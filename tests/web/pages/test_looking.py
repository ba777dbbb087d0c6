"""What a person sees and does in each view of the page, with a pointer and with keys alone."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, Route, expect

from dray.testing import Cluster
from tests.web.pages.browsing import CLASS, H100, NARROW, Visit, let_wait, pod, run, taint


@pytest.fixture(scope="module", autouse=True)
def busy(cluster: Cluster) -> None:
    run(cluster, "training", 2)
    let_wait(cluster, "greedy", 9)


def count(page: Page, label: str) -> str:
    """How many devices the legend gives a state."""
    return page.locator(".legend a", has_text=re.compile(f"^{label} [0-9]")).locator(".count").inner_text()


def test_the_map_counts_devices_and_its_legend_says_what_colours_mean(visit: Visit) -> None:
    page = visit.open()
    expect(page.locator(".stat", has_text=CLASS).locator(".value")).to_have_text("10 of 12 free")
    expect(page.locator(".stat", has_text=CLASS)).to_contain_text("2 allocated")
    assert (count(page, "Free"), count(page, "Allocated")) == ("10", "2")
    expect(page.locator(".map-canvas")).to_be_visible()


def test_the_card_of_a_class_filters_by_it(visit: Visit) -> None:
    page = visit.open()
    page.locator(".stat").get_by_role("button", name=CLASS).click()
    expect(page.locator("#cel-result")).to_contain_text("12 of 12 devices match")
    page.locator(".stat").get_by_role("button", name=CLASS).click()
    expect(page.locator("#cel-result")).to_be_empty()


def test_the_table_has_the_same_devices_as_the_map(visit: Visit) -> None:
    page = visit.open("#/map?show=table")
    rows = page.locator(".view-map tbody tr")
    expect(rows).to_have_count(12)
    held = rows.filter(has_text="default/training")
    expect(held).to_have_count(2)
    expect(held.first).to_contain_text("Allocated")


def test_pointing_at_a_device_says_what_it_is(visit: Visit) -> None:
    page = visit.open()
    box = page.locator(".map-canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 110, box["y"] + 50)
    tip = page.locator(".tooltip")
    expect(tip).to_contain_text("driver")
    expect(tip).to_contain_text("model")  # an attribute, which is asked for


def test_a_change_in_the_cluster_is_on_the_page_within_half_a_second(visit: Visit, cluster: Cluster) -> None:
    page = visit.open()
    best = 10.0
    for attempt in range(3):
        wanted = int(page.locator(".legend .count").first.inner_text()) - 1
        cluster.apply(taint(f"live-{attempt}", "node-2", f"gpu-{attempt}"))
        began = time.monotonic()
        expect(page.locator(".legend .count").first).to_have_text(str(wanted))
        best = min(best, time.monotonic() - began)
    for attempt in range(3):
        cluster.delete("devicetaintrules", f"live-{attempt}")
    expect(page.locator(".legend .count").first).to_have_text(str(wanted + 3))
    print(f"change to page: {best * 1000:.0f} ms")
    assert best < 0.5


def test_an_expression_shows_what_matches_and_which_part_fails(visit: Visit) -> None:
    page = visit.open()
    page.get_by_label("CEL expression").fill(f'device.driver == "{CLASS}" && {H100}')
    result = page.locator("#cel-result")
    expect(result).to_contain_text("3 of 12 devices match")
    failing = result.get_by_role("button")
    expect(failing).to_contain_text("9 do not meet")
    expect(failing).to_contain_text('"h100"')
    failing.click()
    expect(failing).to_have_attribute("aria-pressed", "true")
    page.reload()
    expect(failing).to_have_attribute("aria-pressed", "true")  # all of it is in the address


def test_a_wrong_expression_is_said_to_be_wrong(visit: Visit) -> None:
    page = visit.open()
    result = page.locator("#cel-result")
    page.get_by_label("CEL expression").fill("device.driver ==")
    expect(page.get_by_label("CEL expression")).to_have_attribute("aria-invalid", "true")
    expect(result).to_contain_text("The map is not filtered by it.")
    *_, line, place = result.locator("pre").inner_text().splitlines()
    assert line.index("device.driver ==") + len("device.driver ==") == place.index("^")  # where it goes wrong
    page.get_by_label("CEL expression").fill(H100)
    expect(result).to_contain_text("3 of 12 devices match.")
    page.get_by_label("CEL expression").fill("device.nothing")
    expect(result).to_contain_text("The map still shows what the last expression")


def test_filters_are_part_of_the_address(visit: Visit) -> None:
    by_index = "device.attributes%5B%22gpu.example.com%22%5D.index+%3D%3D+1"
    page = visit.open(f"#/map?show=table&label=kubernetes.io/hostname%3Dnode-1&cel={by_index}")
    rows = page.locator(".view-map tbody tr")
    expect(rows).to_have_count(1)
    for fragment, count in (
        (f"driver={CLASS}", 12),
        ("label=kubernetes.io/hostname%3Dnode-1", 4),
        (f"class={CLASS}", 12),
        ("state=reserved", 2),
    ):
        visit.turn_to(f"#/map?show=table&{fragment}")
        expect(rows).to_have_count(count)


def test_a_link_to_a_device_opens_it_with_its_path(visit: Visit, cluster: Cluster) -> None:
    held = cluster.get("resourceclaims", "training")["status"]["allocation"]["devices"]["results"][0]
    page = visit.open(f"#/map?sel=device:{CLASS}/{held['pool']}/{held['device']}")
    details = page.get_by_role("complementary", name="Details")
    expect(details.get_by_role("heading", level=2)).to_have_text(held["device"])
    path = details.get_by_role("navigation", name="Path from pod to driver")
    expect(path.get_by_role("link")).to_have_count(5)
    expect(details).to_contain_text("a100")
    expect(details).to_contain_text("40Gi")
    path.get_by_role("link", name="training").first.click()
    expect(details.locator(".kind").first).to_have_text("pod")
    page.go_back()
    expect(details.locator(".kind").first).to_have_text("device")


def test_why_opens_with_the_pod_that_has_waited_longest(visit: Visit, cluster: Cluster) -> None:
    let_wait(cluster, "aaa-later", 9)
    visit.open()
    page = visit.turn_to("#/why")
    expect(page.locator(".story h2")).to_have_text("Why default/greedy waits")
    expect(page.get_by_role("link", name="default/greedy", exact=True).first).to_have_attribute("aria-current", "true")
    page.go_back()
    expect(page.locator(".view-map")).to_be_visible()
    cluster.delete("pods", "aaa-later")
    cluster.delete("resourceclaims", "aaa-later")


def test_a_pod_that_waits_does_not_count_as_user_of_a_device(visit: Visit, cluster: Cluster) -> None:
    """A pod that names the claim of another one, and cannot run beside it, holds none of its devices."""
    held = next(one for one in cluster.list("resourceclaims") if one["metadata"]["name"] == "training")
    device = held["status"]["allocation"]["devices"]["results"][0]
    cluster.apply(
        pod("guest", "training") | {"spec": {**pod("guest", "training")["spec"], "nodeSelector": {"no": "node"}}}
    )
    cluster.wait("pods", "guest", lambda tree: bool(tree["status"].get("conditions")))
    page = visit.open(f"#/map?sel=device:{CLASS}/{device['pool']}/{device['device']}")
    path = page.get_by_role("navigation", name="Path from pod to driver")
    expect(path.locator("li", has_text="claim")).to_contain_text("training")
    expect(path.locator("li").first).to_have_text("podtraining")
    visit.turn_to("#/map?sel=claim:default/training")
    expect(path.locator("li").first).to_contain_text("guest, waits")
    cluster.delete("pods", "guest")


def test_why_groups_pods_by_cause_and_lights_the_steps_of_one(visit: Visit) -> None:
    page = visit.open("#/why")
    expect(page.locator(".causes summary")).to_contain_text("TooFewDevices")
    page.get_by_role("link", name="default/greedy", exact=True).first.click()
    funnel = page.locator(".funnel")
    expect(funnel).to_contain_text("needs 9 devices")
    expect(funnel.locator("tbody tr").first).to_contain_text("12")
    expect(page.get_by_role("list", name="Steps at which devices drop out")).to_be_visible()
    assert "pod=default%2Fgreedy" in page.url


def test_a_pod_that_is_gone_is_said_to_be_gone(visit: Visit) -> None:
    page = visit.open("#/why?pod=default/gone")
    expect(page.locator(".story .panel")).to_contain_text("default/gone")
    expect(page.locator(".story .panel")).to_contain_text("It does not exist any more, or you may not read it.")


def test_an_answer_that_comes_when_another_view_is_open_is_there_on_return(visit: Visit) -> None:
    page = visit.open("#/map")
    held: list[Route] = []
    page.route("**/api/ask/why", lambda route: held.append(route))
    with page.expect_request("**/api/ask/why"):
        visit.turn_to("#/why")
    visit.turn_to("#/claims")
    expect(page.locator(".view-claims")).to_be_visible()
    with page.expect_response("**/api/ask/why"):
        held[0].continue_()
    page.go_back()
    expect(page.locator(".funnel")).to_contain_text("needs 9 devices")


def test_what_fits_says_the_largest_claim_of_each_class(visit: Visit) -> None:
    page = visit.open("#/fits")
    row = page.locator(".classes tbody tr", has_text=CLASS)
    expect(row).to_contain_text("4 on node-")
    expect(row.get_by_role("img")).to_have_attribute("aria-label", re.compile("node"))


def test_time_says_how_far_back_it_goes_and_shows_the_map_as_it_was(visit: Visit) -> None:
    page = visit.open("#/time")
    expect(page.get_by_text("The history goes back to")).to_be_visible()
    slider = page.get_by_label("The map at")
    page.wait_for_function("() => { const s = document.getElementById('moment'); return s.max - s.min >= 3; }")
    slider.focus()
    slider.press("Home")
    expect(page.get_by_text("differed from now")).to_be_visible()
    expect(page.get_by_role("button", name="Back to now")).to_be_visible()
    page.get_by_role("button", name="Back to now").click()
    expect(page.locator("output")).to_have_text("now")


def test_claims_are_listed_by_the_states_of_their_life(visit: Visit) -> None:
    page = visit.open("#/claims")
    rows = page.locator(".view-claims tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_role("link", name=re.compile("^reserved: 1")).click()
    expect(rows).to_have_count(1)
    rows.get_by_role("link", name="default/training").click()
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("2 devices")
    page.get_by_role("link", name=re.compile("^Pods")).click()
    expect(rows).to_have_count(2)


def test_drivers_are_shown_with_what_they_publish(visit: Visit) -> None:
    page = visit.open("#/drivers")
    row = page.locator("tbody tr", has_text=CLASS).first
    expect(row).to_contain_text("12")
    expect(row).to_contain_text("1.0.0")
    row.get_by_role("link", name=CLASS).click()
    details = page.get_by_role("complementary", name="Details")
    expect(details.get_by_role("link", name=re.compile("^node-"))).to_have_text(["node-0", "node-1", "node-2"])


def test_everything_can_be_reached_with_keys_alone(visit: Visit) -> None:
    page = visit.open()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.get_by_role("link", name="dray").focus()
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".view-fits")).to_be_visible()
    page.go_back()
    page.locator(".choices select").last.focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("application")).to_be_focused()
    said = page.locator("#say")
    expect(said).to_contain_text("gpu-0 on node-0")
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("gpu-1 on node-0")
    expect(said).to_contain_text("model a100, index 1")
    page.keyboard.press("Enter")
    details = page.get_by_role("complementary", name="Details")
    expect(details.get_by_role("heading", level=2)).to_have_text("gpu-1")
    details.get_by_role("button", name="Close details").focus()
    page.keyboard.press("Escape")
    expect(details).to_be_hidden()


def test_the_theme_can_be_chosen_and_is_kept(visit: Visit) -> None:
    page = visit.open()
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 18, 22)"
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_narrow_window_has_no_sideways_scrolling(visit: Visit) -> None:
    visit.page.set_viewport_size(NARROW)
    visit.open()
    for view in ("map", "why", "fits", "time", "claims", "drivers"):
        page = visit.turn_to(f"#/{view}")
        expect(page.locator(f".view-{view}")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view


def test_what_fits_is_read_without_sideways_scrolling_in_a_narrow_window(visit: Visit) -> None:
    visit.page.set_viewport_size(NARROW)
    page = visit.open("#/fits")
    row = page.locator(".classes tbody tr", has_text=CLASS)
    for cell in row.locator("th, td").all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= NARROW["width"]
    assert page.locator(".classes .scroller").evaluate("element => element.scrollWidth <= element.clientWidth")
    title = "getComputedStyle(element, '::before').content"
    assert row.locator("td").first.evaluate(f"element => {title}") == '"Free"'  # each line says what it is


def test_a_narrow_window_goes_to_the_pod_that_was_chosen(visit: Visit) -> None:
    visit.page.set_viewport_size(NARROW)
    page = visit.open("#/why")
    page.get_by_role("link", name="default/greedy", exact=True).first.click()
    expect(page.locator(".funnel")).to_be_visible()
    assert page.locator(".story").evaluate("element => element.getBoundingClientRect().top") < 60


def test_paper_gets_no_controls(visit: Visit) -> None:
    page = visit.open("#/map?show=table")
    page.emulate_media(media="print")
    expect(page.get_by_role("search")).to_be_hidden()
    expect(page.locator(".view-map tbody tr").first).to_be_visible()


def test_every_module_is_asked_for_at_once(visit: Visit) -> None:
    """A module that the document does not name is found only when another one has been read."""
    page = visit.open()
    named = page.evaluate("[...document.querySelectorAll('link[rel=modulepreload]')].map((link) => link.href)")
    loaded = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    modules = {one for one in loaded if one.endswith(".js")}
    assert modules - {f"{visit.home}assets/main.js"} == set(named)
