"""Somebody who may not read everything sees what may be read, and is told what is hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from dray.testing import Cluster
from tests.web.pages.browsing import address, claim, run, visiting

GATE = "DRAResourcePoolStatus=true"
READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: hardware}
rules:
- apiGroups: ["", resource.k8s.io]
  resources: [nodes, resourceslices, deviceclasses]
  verbs: [get, list, watch]
- apiGroups: [resource.k8s.io]
  resources: [resourcepoolstatusrequests]
  verbs: [create, get, list, watch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: hardware}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: hardware}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: joe}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: own, namespace: team}
rules:
- apiGroups: ["", resource.k8s.io]
  resources: [pods, resourceclaims]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: own, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: own}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: joe}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    users: Path = tmp_path_factory.mktemp("users") / "users.csv"
    users.write_text("jane-token,jane,1\nnobody-token,nobody,2\njoe-token,joe,3\n")
    with Cluster(feature_gates=GATE, nodes=2, devices=2, token_auth_file=users) as running:
        running.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        running.apply(READER)
        running.apply(claim("own", namespace="team"))
        run(running, "secret", 2)
        yield running


def test_devices_are_shown_without_their_holders(browser: Browser, cluster: Cluster) -> None:
    with visiting(browser, address(cluster), "jane-token") as visit:
        page = visit.open("#/map?show=table")
        expect(page.locator(".hidden-by-rights")).to_contain_text(
            "You may not read device taint rules, resource claims, pods"
        )
        expect(page.locator(".view-map tbody tr")).to_have_count(4)
        expect(page.locator("tbody tr", has_text="Not known to you")).to_have_count(4)
        assert "secret" not in page.content()


def test_counts_of_the_cluster_stand_in_for_what_is_hidden(browser: Browser, cluster: Cluster) -> None:
    with visiting(browser, address(cluster), "jane-token") as visit:
        page = visit.open()
        expect(page.locator(".stat", has_text="Allocated").locator(".value")).to_have_text("2")
        expect(page.locator(".stat", has_text="Free").locator(".value")).to_have_text("2")
        expect(page.locator(".stat", has_text="Free")).to_contain_text("as the cluster counts")
        visit.turn_to("#/drivers")
        expect(page.get_by_role("region", name="Pools, as the cluster counts them").locator("tbody tr")).to_have_count(
            2
        )


def test_each_view_says_what_is_hidden(browser: Browser, cluster: Cluster) -> None:
    with visiting(browser, address(cluster), "jane-token") as visit:
        page = visit.open("#/why")
        expect(page.get_by_text("You may not read pods, so none are listed.")).to_be_visible()
        page.get_by_role("link", name="Claims", exact=True).click()
        expect(page.locator(".view-claims .notice")).to_contain_text("you may not read them")
        page.get_by_role("link", name="What fits").click()
        expect(page.locator(".view-fits .notice")).to_contain_text("what others hold counts as free")
        page.get_by_role("link", name="Time").click()
        expect(page.locator(".plot").first).to_contain_text("not known to you")
        assert "secret" not in page.content()


def test_somebody_with_one_namespace_sees_that_one(browser: Browser, cluster: Cluster) -> None:
    with visiting(browser, address(cluster)) as visit:
        visit.sign_in("joe-token", "team")
        page = visit.open("#/claims")
        expect(page.locator(".hidden-by-rights")).to_contain_text(
            "Of resource claims and pods, you see those of namespace team."
        )
        expect(page.locator(".view-claims tbody tr")).to_have_count(1)
        visit.turn_to("#/map")
        expect(page.locator(".stat", has_text="Pods that wait")).to_contain_text("in your namespace")
        visit.turn_to("#/fits")
        expect(page.locator(".view-fits tbody td").first).to_contain_text("at most")
        page.locator("#trial-manifest").fill(json.dumps(claim("more", namespace="team")))
        page.get_by_role("button", name="How many more fit?").click()
        expect(page.locator(".how-many")).to_contain_text("at most")
        expect(page.locator(".placed .notice")).to_contain_text("what others hold counts as free")
        assert "secret" not in page.content()


def test_somebody_without_any_rights_gets_an_honest_page(browser: Browser, cluster: Cluster) -> None:
    with visiting(browser, address(cluster), "nobody-token") as visit:
        page = visit.open()
        expect(page.get_by_text("You may not read resource slices, so no devices are shown.")).to_be_visible()
        expect(page.locator(".hidden-by-rights")).to_contain_text("resource slices")
        expect(page.locator(".stat .value")).to_have_text(["?"] * 5)  # it does not say that there are none
