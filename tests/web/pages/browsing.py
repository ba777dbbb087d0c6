"""A real browser that looks at the dashboard of a cluster, and what a person does in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import yaml
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, ViewportSize, expect

from bench._browser import LIVE
from dray.api.wire import Tree
from dray.testing import Cluster
from tests import objects
from tests.waiting import SECONDS

WIDE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 390, "height": 844}
CLASS = "gpu.example.com"
H100 = f'device.attributes["{CLASS}"].model == "h100"'

expect.set_options(timeout=SECONDS * 1000)


def address(cluster: Cluster) -> str:
    """The dashboard of a cluster."""
    server = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    return f"{server}/dashboard/"


def administrator(cluster: Cluster) -> str:
    return (cluster.directory / "admin.token").read_text().strip()


class Visit:
    """One person with a browser window. `complaints` are what the browser's console and scripts said against the page."""

    def __init__(self, context: BrowserContext, home: str) -> None:
        self.context = context
        self.home = home
        self.page = context.new_page()
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", self._asked)

    def _heard(self, message: ConsoleMessage) -> None:
        refused = "Failed to load resource" in message.text  # a status that the page handles
        if message.type == "error" and not refused:
            self.complaints.append(message.text)

    def _asked(self, request: Request) -> None:
        if urlsplit(request.url).scheme in ("http", "https", "ws", "wss") and not request.url.startswith(self.home):
            self.foreign.append(request.url)

    def sign_in(self, token: str, namespace: str = "") -> None:
        origin = self.home.removesuffix("/dashboard/")
        answer = self.context.request.post(
            f"{self.home}api/session", data={"token": token, "namespace": namespace}, headers={"Origin": origin}
        )
        assert answer.ok, answer.text()

    def open(self, fragment: str = "#/map") -> Page:
        """Look at a part of the page, once its first picture is complete."""
        self.page.goto("about:blank")
        self.page.goto(self.home + fragment)
        expect(self.page.locator(LIVE)).to_be_visible()
        return self.page

    def turn_to(self, fragment: str) -> Page:
        """Look at another part of the page that is open."""
        self.page.evaluate("fragment => { location.hash = fragment; }", fragment)
        return self.page


@contextmanager
def visiting(browser: Browser, home: str, token: str = "", **options: Any) -> Iterator[Visit]:
    """A visit that ends well only if nothing on the page went wrong and no request went elsewhere."""
    context = browser.new_context(ignore_https_errors=True, viewport=options.pop("viewport", WIDE), **options)
    visit = Visit(context, home)
    if token:
        visit.sign_in(token)
    try:
        yield visit
    finally:
        context.close()
    assert not visit.complaints, visit.complaints
    assert not visit.foreign, visit.foreign


# What there is to see


def claim(name: str, count: int = 1, *selectors: str, namespace: str = "default") -> Tree:
    request = objects.request("gpus", CLASS, count=count, selectors=selectors)
    return objects.claim(name, request, namespace=namespace)


def pod(name: str, claim_name: str, namespace: str = "default") -> Tree:
    """A pod whose only container uses a claim."""
    return objects.pod(name, namespace=namespace, container="main", claims=[claim_name])


def taint(name: str, node: str, device: str) -> Tree:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {
            "deviceSelector": {"driver": CLASS, "pool": node, "device": device},
            "taint": {"key": "example.com/checked", "value": "no", "effect": "NoSchedule"},
        },
    }


def run(cluster: Cluster, name: str, count: int = 1, *selectors: str) -> None:
    """A pod that has its devices."""
    cluster.apply(claim(name, count, *selectors))
    cluster.apply(pod(name, name))
    cluster.wait("pods", name, lambda tree: bool(tree["spec"].get("nodeName")))


def let_wait(cluster: Cluster, name: str, count: int, *selectors: str) -> None:
    """A pod that the scheduler has looked at and that no node can serve."""
    cluster.apply(claim(name, count, *selectors))
    cluster.apply(pod(name, name))
    cluster.wait("pods", name, lambda tree: bool(tree["status"].get("conditions")))
