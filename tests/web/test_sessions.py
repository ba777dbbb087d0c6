"""Codes that work once, cookies that only the server can make, and how sessions end."""

from __future__ import annotations

import time
from pathlib import Path

import aiohttp
import pytest

from dray.api.errors import Unauthorized
from dray.api.types.core import ServiceAccount
from dray.apiserver.security.certificates import Keys
from dray.assembly.access import ServerAccess
from dray.web.access import SignInCredentials
from dray.web.sessions import CODE_SECONDS, SESSION_SECONDS, Sessions, new_key
from tests.waiting import eventually
from tests.web.serving import Browser, Served, browser, served


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_code_works_once_and_for_a_while() -> None:
    clock = Clock()
    sessions = Sessions(clock=clock)
    code = sessions.mint({"user": "a"})
    assert sessions.redeem(code) == {"user": "a"}
    with pytest.raises(Unauthorized):
        sessions.redeem(code)
    late = sessions.mint({"user": "a"})
    clock.now += CODE_SECONDS + 1
    with pytest.raises(Unauthorized):
        sessions.redeem(late)
    with pytest.raises(Unauthorized):
        sessions.redeem("invented")


def test_a_cookie_is_sealed_and_ends() -> None:
    clock = Clock()
    sessions = Sessions(clock=clock)
    cookie, expires = sessions.seal({"token": "secret"})
    assert "secret" not in cookie
    assert sessions.open(cookie) == ({"token": "secret"}, expires)
    for changed in (cookie[:-2] + "AA", "", "x", Sessions().seal({"token": "secret"})[0]):
        with pytest.raises(Unauthorized):
            sessions.open(changed)
    clock.now += SESSION_SECONDS + 1
    with pytest.raises(Unauthorized):
        sessions.open(cookie)


def test_a_cookie_outlives_a_restart_with_the_same_key_unless_it_was_ended() -> None:
    key = new_key()
    cookie, _ = Sessions(key).seal({"user": "a"})
    again = Sessions(key)
    assert again.open(cookie)[0] == {"user": "a"}
    again.revoke(cookie)
    with pytest.raises(Unauthorized):
        again.open(cookie)


def test_cookies_that_stand_for_no_session_are_not_remembered() -> None:
    """Anybody can send them, and there is room for so many that were ended only."""
    sessions = Sessions()
    cookie, _ = sessions.seal({"user": "a"})
    for number in range(20):
        sessions.revoke(f"invented-{number}")
    assert not sessions._revoked
    sessions.revoke(cookie)
    with pytest.raises(Unauthorized):
        sessions.open(cookie)


async def test_a_session_ends_with_the_certificate_that_it_came_from(server: Served) -> None:
    access = ServerAccess(server.running, "")
    jane = {"subject": ((("commonName", "jane"),),), "notAfter": "Jan  1 00:00:00 2100 GMT"}
    identity = await access.admit(SignInCredentials(certificate=jane))
    assert (await access.restore(identity.credential)).name == "jane"
    with pytest.raises(Unauthorized):
        await access.restore(identity.credential | {"until": time.time() - 1})


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(server: Served) -> None:
    async with browser(server.origin) as window:
        headers = {"Origin": server.origin}
        async with window.session.post(
            f"{window.base}api/session", json={"code": server.code()}, headers=headers
        ) as answer:
            cookie = answer.headers["Set-Cookie"]
            assert {"HttpOnly", "SameSite=Strict", "Path=/dashboard/"} <= set(cookie.split("; "))
            assert str(server.port) in cookie
            assert answer.headers["Cache-Control"] == "no-store"


async def test_a_code_and_a_token_let_in_and_nothing_else_does(server: Served) -> None:
    code = server.code()
    async with browser(server.origin) as window:
        assert (await window.sign_in(code=code))["user"] == "kubernetes-admin"
        assert (await window.post("api/session", {"code": code}))[0] == 401
        assert (await window.sign_in(token="jane-token", namespace="lab"))["user"] == "jane"
        status, session = await window.get("api/session")
        assert (status, session["user"], session["namespace"]) == (200, "jane", "lab")
        for offer in ({"token": "wrong"}, {"token": "täuschung"}, {}, {"code": "wrong"}):
            status, tree = await window.post("api/session", offer)
            assert (status, tree["error"]["code"]) == (401, "Unauthorized")


async def test_a_token_gets_a_code_that_admits_one_browser_as_the_same_user(server: Served) -> None:
    async with browser(server.origin) as window:
        address = f"{window.base}api/code"
        async with window.session.get(address, headers={"Authorization": "Bearer jane-token"}) as answer:
            tree = await answer.json()
            assert answer.status == 200, tree
            code = tree["code"]
        assert (await window.sign_in(code=code))["user"] == "jane"
        assert (await window.post("api/session", {"code": code}))[0] == 401
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            async with window.session.get(address, headers=headers) as answer:
                assert answer.status == 401, headers


async def test_signing_out_ends_the_session_everywhere(server: Served) -> None:
    async with browser(server.origin) as window:
        await window.sign_in(token="admin-token")
        [stolen] = [one.value for one in window.session.cookie_jar]
        async with window.page() as page:
            async with window.session.delete(f"{window.base}api/session", headers={"Origin": server.origin}) as answer:
                assert answer.status == 204
            await page.wait(lambda: page.bye == "session-ended")
        assert (await window.get("api/session"))[0] == 401
        name = f"dray-dashboard-{server.port}"
        thief = aiohttp.ClientSession(cookies={name: stolen})
        async with thief, thief.get(f"{window.base}api/session") as answer:
            assert answer.status == 401


async def test_a_token_that_is_good_no_more_ends_page_and_session(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.web.picture._RIGHTS_SECONDS", 0.1)
    account = {"metadata": {"name": "viewer"}}
    await server.client.create(ServiceAccount, account, namespace="default")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    made = await server.client.create(ServiceAccount, request, namespace="default", name="viewer", subresource="token")
    async with browser(server.origin) as window:
        await window.sign_in(token=made.status.token)  # type: ignore[attr-defined]  # the answer is a TokenRequest
        async with window.page() as page:
            await server.client.delete(ServiceAccount, "viewer", "default")
            await page.wait(lambda: page.bye == "session-ended")
        assert (await window.get("api/session"))[0] == 401


async def test_a_session_that_ends_ends_its_pages(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.web.sessions.SESSION_SECONDS", 2)
    async with browser(server.origin) as window:
        await window.sign_in(code=server.code())
        async with window.page() as page:
            await page.wait(lambda: page.bye == "session-ended")
        await eventually(lambda: _is_out(window))


async def _is_out(window: Browser) -> bool:
    return (await window.get("api/session"))[0] == 401


async def test_a_page_survives_a_restart_of_the_server(tmp_path: Path, keys: Keys) -> None:
    async with served(tmp_path, keys) as first:
        port = first.port
        window_context = browser(first.origin)
        window = await window_context.__aenter__()
        await window.sign_in(code=first.code())
        page_context = window.page()
        page = await page_context.__aenter__()
        epoch = page.hello["epoch"]
    try:
        await page.wait(lambda: page.bye == "closing")
        await page_context.__aexit__(None, None, None)
        async with served(tmp_path, keys, port), window.page() as again:
            assert again.hello["epoch"] != epoch
            assert again.hello["user"] == "kubernetes-admin"
    finally:
        await window_context.__aexit__(None, None, None)
