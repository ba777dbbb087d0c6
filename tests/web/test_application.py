"""Paths, methods, and who is refused before anything is looked at."""

from __future__ import annotations

import io
import re
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from tests.web.serving import Browser, Served, browser


async def _status(window: Browser, method: str, path: str, **options: Any) -> tuple[int, str]:
    async with window.session.request(method, window.base + path, **options) as answer:
        tree = await answer.json() if answer.content_type == "application/json" and method != "HEAD" else {}
        return answer.status, tree.get("error", {}).get("code", "")


async def test_the_page_is_public_and_keeps_to_itself(server: Served) -> None:
    async with browser(server.origin) as window, window.session.get(window.base) as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert not re.search(r"<script[^>]*>[^<]|<style|\son[a-z]+=|\sstyle=", await answer.text()), (
            "inline script or style"
        )


async def test_without_the_slash_a_browser_is_sent_on(server: Served) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{server.origin}/dashboard", allow_redirects=False) as answer,
    ):
        assert (answer.status, answer.headers["Location"]) == (308, "/dashboard/")


async def test_files_of_the_page_are_sent_once(server: Served, admin: Browser) -> None:
    async with admin.session.get(f"{admin.base}assets/icon.svg") as answer:
        assert (answer.status, answer.content_type) == (200, "image/svg+xml")
        tag = answer.headers["ETag"]
    async with admin.session.get(f"{admin.base}assets/icon.svg", headers={"If-None-Match": tag}) as answer:
        assert answer.status == 304


@pytest.mark.parametrize(
    "name", ["absent.js", "../application.py", "..%2fapplication.py", "%2e%2e/access.py", ".html", ""]
)
async def test_nothing_else_is_a_file_of_the_page(admin: Browser, name: str) -> None:
    async with admin.session.get(f"{admin.origin}/dashboard/assets/{name}") as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "api/absent", 404, "NotFound"),
        ("GET", "absent", 404, "NotFound"),
        ("GET", "api/ask/match", 405, "MethodNotAllowed"),
        ("POST", "api/ask/absent", 404, "NotFound"),
        ("POST", "api/stream", 405, "MethodNotAllowed"),
        ("POST", "", 405, "MethodNotAllowed"),
        ("PUT", "api/session", 405, "MethodNotAllowed"),
        ("OPTIONS", "api/session", 405, "MethodNotAllowed"),
    ],
)
async def test_paths_and_methods_that_are_not_there(
    admin: Browser, method: str, path: str, status: int, code: str
) -> None:
    options: Any = {"headers": {"Origin": admin.origin}}
    if method == "POST":
        options["json"] = {}
    assert await _status(admin, method, path, **options) == (status, code)


async def test_a_name_of_somebody_else_is_refused(server: Served) -> None:
    async with browser(server.origin) as window:
        for path in ("", "api/session", "api/stream"):
            host = {"Host": f"evil.example:{server.port}"}
            assert await _status(window, "GET", path, headers=host) == (403, "Forbidden")
        for host in (f"localhost:{server.port}", f"[::1]:{server.port}", f"127.0.0.1:{server.port}"):
            assert (await _status(window, "GET", "", headers={"Host": host}))[0] == 200


async def test_pages_of_other_sites_are_refused(server: Served, admin: Browser) -> None:
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://127.0.0.1:{server.port}"},
        {"Origin": "http://127.0.0.1:1"},
        {},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert await _status(admin, "POST", "api/ask/fits", json={}, headers=headers) == (403, "Forbidden"), headers
    assert await _status(admin, "GET", "api/series", headers={"Sec-Fetch-Site": "cross-site"}) == (403, "Forbidden")
    assert (await _status(admin, "POST", "api/ask/fits", json={}, headers={"Sec-Fetch-Site": "same-origin"}))[0] != 403


async def test_bodies_must_be_json_and_not_too_long(admin: Browser) -> None:
    headers = {"Origin": admin.origin}
    plain = {**headers, "Content-Type": "text/plain"}
    assert await _status(admin, "POST", "api/ask/fits", data=b"{}", headers=plain) == (415, "UnsupportedMediaType")
    typed = {**headers, "Content-Type": "application/json"}
    assert await _status(admin, "POST", "api/ask/fits", data=b"{", headers=typed) == (400, "BadRequest")
    assert await _status(admin, "POST", "api/ask/fits", data=io.BytesIO(b"x" * (2 << 20)), headers=typed) == (
        413,
        "TooLarge",
    )
    assert await _status(admin, "POST", "api/session", data=b"[]", headers=typed) == (400, "BadRequest")


@pytest.mark.parametrize("path", ["api/session", "api/stream", "api/series"])
async def test_without_a_session_nothing_is_shown(server: Served, path: str) -> None:
    async with browser(server.origin) as window:
        assert await _status(window, "GET", path) == (401, "Unauthorized")
        assert (await window.post("api/ask/fits", {}))[0] == 401


async def test_a_user_has_few_pictures_and_those_that_nobody_looks_at_make_room(server: Served) -> None:
    """Each costs as much memory as the cluster is large, and anybody can name as many namespaces as they like."""
    async with AsyncExitStack() as stack:
        for number in range(8):
            window = await stack.enter_async_context(browser(server.origin))
            await window.sign_in(token="admin-token", namespace=f"n{number}")
            await stack.enter_async_context(window.page()) if number >= 4 else await window.get("api/series")
        await window.sign_in(token="admin-token", namespace="one-more")
        assert await _status(window, "GET", "api/stream") == (429, "TooManyRequests")
        assert server.mounted._dashboard is not None
        names = {picture.identity.namespace for picture, _ in server.mounted._dashboard._pictures.values()}
        assert names == {"n4", "n5", "n6", "n7"}
        jane = await stack.enter_async_context(browser(server.origin))
        await jane.sign_in(token="jane-token")
        await stack.enter_async_context(jane.page())


async def test_the_api_server_goes_on_beside_it(server: Served, admin: Browser) -> None:
    async with admin.session.get(f"{server.origin}/livez") as answer:
        assert answer.status == 200
    async with admin.session.get(f"{server.origin}/api/v1/nodes") as answer:
        assert answer.status == 401, "a cookie of the dashboard is nothing to the API"
