"""Three tasks of somebody who has never seen the page, done from the page alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from dray.testing import Cluster
from tests.web.pages.browsing import CLASS, H100, Visit, let_wait, run

JOB = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: two-gpus}}
spec:
  spec:
    devices:
      requests:
      - name: gpus
        exactly: {{deviceClassName: {CLASS}, count: 2}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: render}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: app
        resources: {{claims: [{{name: gpus}}]}}
      resourceClaims:
      - name: gpus
        resourceClaimTemplateName: two-gpus
"""


@pytest.fixture(scope="module", autouse=True)
def busy(cluster: Cluster) -> None:
    for number in range(3):
        run(cluster, f"trainer-{number}", 1, H100)
    let_wait(cluster, "latecomer", 1, H100)


def test_why_does_this_pod_wait(visit: Visit) -> None:
    page = visit.open()
    page.get_by_role("link", name="Why", exact=True).click()
    page.get_by_role("link", name="default/latecomer").click()
    story = page.locator(".story")
    expect(story.locator(".code")).to_have_text("AllTaken")
    holders = story.get_by_text("3 claims hold matching devices")
    holders.click()
    expect(story.get_by_role("link", name="default/trainer-0")).to_be_visible()


def test_what_would_help_can_be_tried_without_leaving_the_page(visit: Visit) -> None:
    page = visit.open("#/why?pod=default/latecomer")
    expect(page.get_by_text("What would help:")).to_be_visible()
    page.get_by_role("button", name="Try it in a simulation").click()
    expect(page.locator(".change")).to_contain_text("It fits")


def test_who_holds_the_last_h100(visit: Visit) -> None:
    page = visit.open()
    page.get_by_label("CEL expression").fill(H100)
    expect(page.locator("#cel-result")).to_contain_text("3 of 12 devices match")
    page.get_by_label("Show as").select_option("Table")
    rows = page.locator(".view-map tbody tr")
    expect(rows).to_have_count(3)
    rows.last.get_by_role("link", name="default/trainer-").click()
    details = page.get_by_role("complementary", name="Details")
    expect(details).to_contain_text("reserved")
    expect(details.get_by_role("link", name="default/trainer-").last).to_be_visible()


def test_how_many_more_of_this_job_fit(visit: Visit) -> None:
    page = visit.open()
    page.get_by_role("link", name="What fits").click()
    page.get_by_role("textbox", name="Manifest").fill(JOB)
    page.get_by_role("button", name="How many more fit?").click()
    expect(page.locator(".how-many")).to_have_text("3 more copies fit.")


def test_how_many_more_of_something_that_runs_fit(visit: Visit, cluster: Cluster) -> None:
    page = visit.open("#/fits")
    page.get_by_role("combobox", name="Like", exact=True).select_option("Pod/default/trainer-0")
    expect(page.get_by_role("textbox", name="Manifest")).to_have_value(re.compile('"kind": "Pod"'))
    page.get_by_role("button", name="Does one fit?").click()
    expect(page.locator(".trial-result")).not_to_be_empty()
