"""Who shares what: groups of pods with one claim, and hardware that is cut into partitions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from dray.api.wire import Tree
from dray.testing import Cluster
from tests import objects
from tests.web.pages.browsing import Visit

DRIVER, SLICES = "gpu.nvidia.com", "mig.nvidia.com"
SMALLEST = f'device.attributes["{DRIVER}"].profile == "1g.5gb"'

HELD_PIXELS = """() => {
  const canvas = document.querySelector(".map-canvas");
  const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const rows = new Map();
  for (let i = 0; i < data.length; i += 4) {
    const row = Math.floor(i / 4 / width);
    if (data[i] === 0 && data[i + 1] === 114 && data[i + 2] === 178) rows.set(row, (rows.get(row) ?? 0) + 1);
  }
  return Math.max(0, ...rows.values());
}"""
"""How wide the colour of what is held is on the map."""


def _group(name: str, claim: str) -> Tree:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
    }
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def _slice_claim(name: str) -> Tree:
    return objects.claim(name, objects.request("slice", SLICES, selectors=[SMALLEST]), namespace="default")


def _member(name: str, group: str, claim: str) -> Tree:
    return objects.pod(
        name, namespace="default", container="main", claims=[claim], schedulingGroup={"podGroupName": group}
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(profile="mig-a100", feature_gates="AllAlpha=true") as running:
        for tree in (
            _slice_claim("ours"),
            _group("gang", "ours"),
            _member("a", "gang", "ours"),
            _member("b", "gang", "ours"),
        ):
            running.apply(tree)
        for name in ("a", "b"):
            running.wait("pods", name, lambda tree: bool(tree["spec"].get("nodeName")))
        yield running


def test_a_group_leads_to_its_claim_and_its_pods(visit: Visit) -> None:
    page = visit.open("#/claims")
    page.get_by_role("link", name="Groups and workloads 1").click()
    row = page.locator(".view-claims tbody tr", has_text="default/gang")
    expect(row).to_contain_text("placed2 of 2 pods")
    row.get_by_role("link", name="default/gang").click()
    details = page.get_by_role("complementary", name="Details")
    expect(details.get_by_role("link", name="default/b")).to_be_visible()
    details.get_by_role("link", name="default/ours").click()
    path = details.get_by_role("navigation", name="Path from pod to driver")
    expect(path.get_by_role("link")).to_have_text(
        ["a", "b", "ours", re.compile("^gpu-0-mig-"), re.compile("^mig-a100-0-"), DRIVER]
    )


def test_a_partition_takes_its_share_of_the_cell_and_says_which_others_it_excludes(
    visit: Visit, cluster: Cluster
) -> None:
    held = cluster.get("resourceclaims", "ours")["status"]["allocation"]["devices"]["results"][0]
    page = visit.open(f"#/map?sel=device:{DRIVER}/{held['pool']}/{held['device']}")
    hardware = page.locator("#inspector section", has_text="In the same hardware")
    expect(hardware).to_contain_text("Blocked by partitions")
    expect(hardware).to_contain_text("Free")
    expect(page.locator(".legend", has_text="Blocked by partitions")).to_be_visible()
    page.wait_for_function(f"() => ({HELD_PIXELS})() > 0")
    assert page.evaluate(HELD_PIXELS) <= 5, "a seventh of 22 pixels"
