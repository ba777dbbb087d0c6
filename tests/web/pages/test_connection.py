"""A server that goes and comes back, and a session that ends: the page says so, and goes on where it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, TimeoutError, expect

from dray.testing import Cluster
from tests.ports import free_port
from tests.web.pages.browsing import CLASS, Visit, address, administrator, run, visiting


class Restartable:
    """A cluster that keeps its directory, its port and its users."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()

    @contextmanager
    def run(self) -> Iterator[Cluster]:
        users = self.directory / "users.csv"
        users.write_text("kept-token,keeper,1,system:masters\n")
        with Cluster(
            nodes=2, devices=2, token_auth_file=users, dir=self.directory, store="sqlite", port=self.port
        ) as cluster:
            yield cluster


@pytest.fixture
def restartable(tmp_path: Path) -> Restartable:
    return Restartable(tmp_path)


def test_the_page_connects_again_when_the_server_is_back(browser: Browser, restartable: Restartable) -> None:
    with restartable.run() as first:
        home = address(first)
    with visiting(browser, home) as visit:
        with restartable.run():
            visit.sign_in("kept-token")
            page = visit.open(f"#/map?driver={CLASS}&show=table")
            expect(page.locator(".view-map tbody tr")).to_have_count(4)
        expect(page.locator(".notice.broken")).to_contain_text("tries to connect again")
        expect(page.locator(".connection")).to_have_text("Not connected")
        expect(page.locator(".view-map tbody tr")).to_have_count(4)  # what was known stays
        with restartable.run() as second:
            expect(page.locator(".connection")).to_have_text("Live")
            expect(page.locator(".notice.broken")).to_have_count(0)
            run(second, "after")
            expect(page.locator(".view-map tbody tr", has_text="default/after")).to_have_count(1)
            assert f"driver={CLASS}" in page.url


def test_an_ended_session_leads_to_the_form_and_back(browser: Browser, restartable: Restartable) -> None:
    with restartable.run() as first:
        home = address(first)
    with visiting(browser, home) as visit:
        with restartable.run():
            visit.sign_in("kept-token")
            page = visit.open("#/claims?find=x&sel=node:node-1")
        (restartable.directory / "dashboard.key").unlink()  # a new key: no cookie is good any more
        with restartable.run():
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            expect(page.get_by_text("The session has ended")).to_be_visible()
            expect(page.locator(".connection")).to_have_text("Signed out")
            page.get_by_label("Token", exact=True).fill("wrong")
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).not_to_be_empty()
            page.get_by_label("Token", exact=True).fill("kept-token")
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_label("Find")).to_have_value("x")
            expect(page.get_by_role("complementary", name="Details")).to_contain_text("node-1")


def test_a_question_with_an_ended_session_leads_to_the_form(visit: Visit) -> None:
    page = visit.open()
    visit.context.clear_cookies()
    with suppress(TimeoutError):  # a request that the page makes by itself may lead to the form first
        page.get_by_label("CEL expression").fill("true", timeout=5_000)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_code_is_taken_out_of_the_address(browser: Browser, cluster: Cluster) -> None:
    with visiting(browser, address(cluster)) as visit:
        visit.page.goto(f"{visit.home}#code=not-a-code")
        expect(visit.page.get_by_text("That code does not work")).to_be_visible()
        assert "not-a-code" not in visit.page.url
        visit.page.get_by_label("Token", exact=True).fill(administrator(cluster))
        visit.page.get_by_role("button", name="Sign in").click()
        expect(visit.page.locator(".connection")).to_have_text("Live")


def test_signing_out_ends_what_the_page_shows(visit: Visit) -> None:
    page = visit.open()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert visit.context.cookies() == []
