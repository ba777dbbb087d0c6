"""`dray dashboard` as a process: for a cluster, for a recording, for a demonstration; and inside `dray up`."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from dray.testing import Cluster
from tests.cli.running import Dray, outcome
from tests.web.serving import Browser, browser


def _address(command: Dray) -> tuple[str, str]:
    """Origin and code, as they are printed."""
    found = re.search(r"(https?://[^/\s]+)/dashboard/#code=(\S+)", "\n".join(command.lines))
    assert found is not None, command.lines
    return found[1], found[2]


@asynccontextmanager
async def _looking(command: Dray) -> AsyncIterator[Browser]:
    origin, code = _address(command)
    async with browser(origin) as window:
        await window.sign_in(code=code)
        yield window


async def test_a_cluster_is_shown_to_the_user_of_the_kubeconfig() -> None:
    with (
        Cluster(nodes=2, devices=4) as cluster,
        Dray("dashboard", "--kubeconfig", cluster.kubeconfig) as command,
    ):
        async with _looking(command) as window, window.page() as page:
            assert (page.hello["user"], page.hello["mode"]) == ("kubernetes-admin", "live")
            await page.wait(lambda: len(page.tables.get("devices", {})) == 8)
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}})
            claim = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}
            tree = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
            cluster.apply({**tree, "spec": {"devices": claim}}, "lab")
            await page.wait(lambda: page.claim_state("c") == "pending")
            assert command.stop() == 0
            await page.wait(lambda: page.bye == "closing")


async def test_the_code_works_once_and_only_on_this_machine() -> None:
    with Cluster() as cluster, Dray("dashboard", "--kubeconfig", cluster.kubeconfig) as command:
        origin, code = _address(command)
        async with browser(origin) as window:
            await window.sign_in(code=code)
            assert (await window.post("api/session", {"code": code}))[0] == 401
            assert (await window.post("api/session", {"token": "any"}))[0] == 401
            async with window.session.get(window.base, headers={"Host": "10.0.0.1"}) as answer:
                assert answer.status == 403


async def test_a_recording_is_shown_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json.gz"
    with Cluster(nodes=3, devices=2) as cluster:
        assert outcome("record", "--kubeconfig", cluster.kubeconfig, "-o", file)[0] == 0
    with Dray("dashboard", "--recording", file) as command:
        async with _looking(command) as window, window.page() as page:
            assert (page.hello["mode"], page.hello["server"]) == ("recording", "cluster.json.gz")
            assert (len(page.tables["nodes"]), len(page.tables["devices"])) == (3, 6)
            assert (await window.ask("fits"))["classes"][0]["free"] == 6
            assert set(page.hello["resources"].values()) == {"all"}


async def test_a_demonstration_moves_by_itself() -> None:
    with Dray("dashboard", "--demo") as command:
        async with _looking(command) as window, window.page() as page:
            assert page.hello["mode"] == "demo"
            await page.wait(lambda: [row["placed"] for row in page.tables.get("groups", {}).values()] == [3])
            [group] = page.tables["groups"].values()
            assert len(group["claims"]) == 1, "its pods share one claim"
            shared = page.hello["states"]["device"].index("shared")
            await page.wait(lambda: any(row["state"] == shared for row in page.tables["devices"].values()))
            await page.wait(lambda: any(row["claims"] for row in page.tables["devices"].values()))
            await page.wait(lambda: any(sample["allocations"] for sample in page.samples))
            await page.wait(
                lambda: {page.strings[row["zone"]] for row in page.tables["nodes"].values()} == {"zone-a", "zone-b"}
            )
        assert command.stop() == 0


async def test_dray_up_serves_the_same_page_with_tls(tmp_path: Path) -> None:
    with Dray("up", "--dir", tmp_path, "--store", "memory", "--port", "0", "--nodes", "1") as command:
        origin, code = _address(command)
        trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        jar, connector = aiohttp.CookieJar(unsafe=True), aiohttp.TCPConnector(ssl=trusted)
        async with aiohttp.ClientSession(cookie_jar=jar, connector=connector) as session:
            window = Browser(session, origin)
            assert (await window.sign_in(code=code))["user"] == "kubernetes-admin"
            [cookie] = jar
            assert cookie["secure"]
            async with window.page() as page:
                await page.wait(lambda: len(page.tables.get("devices", {})) == 8)
        assert (tmp_path / "dashboard.key").stat().st_mode & 0o777 == 0o600


async def test_where_nobody_has_to_say_who_asks_the_page_only_asks(tmp_path: Path) -> None:
    options = ("--store", "memory", "--port", "0", "--insecure")
    with Dray("up", "--dir", tmp_path, *options) as command:
        async with browser(_address(command)[0]) as window:
            assert (await window.sign_in())["user"] == "kubernetes-admin"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--port", "70000"], 1, "port 70000"),
        (["--recording", "absent.json"], 2, "absent.json"),
        (["--kubeconfig", "absent"], 2, "absent"),
        (["--demo", "--recording", "x"], 2, "not allowed with"),
    ],
)
def test_what_cannot_be_shown_is_said(arguments: list[str], code: int, message: str) -> None:
    found = outcome("dashboard", *arguments)
    assert found[0] == code
    assert message in found[1]


def test_a_port_that_is_taken_is_said() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken, Cluster() as cluster:
        port = str(taken.getsockname()[1])
        code, text = outcome("dashboard", "--kubeconfig", cluster.kubeconfig, "--port", port)
        assert code == 1
        assert "dray dashboard:" in text
