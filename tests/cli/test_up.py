"""`dray up` and `dray apiserver`, from start to end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sqlite3
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.assembly import ClusterOptions
from dray.assembly.parts import plan_of
from dray.assembly.server import serve_until
from tests.cli.running import Dray, outcome
from tests.waiting import SECONDS, eventually


def asked(kubeconfig: Path, path: str) -> Any:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    request = urllib.request.Request(cluster["server"] + path)
    context = None
    if "token" in user:
        request.add_header("Authorization", f"Bearer {user['token']}")
        context = ssl.create_default_context(cafile=str(kubeconfig.parent / "ca.crt"))
    with urllib.request.urlopen(request, timeout=SECONDS, context=context) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize("command", ["up", "apiserver"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_what_to_do_next_and_stops_when_told(tmp_path: Path, command: str, number: int) -> None:
    with Dray(command, "--dir", tmp_path / "d", "--port", "0", "--store", "memory") as dray:
        assert dray.lines[-1] == "ready"
        assert any(f"KUBECONFIG={tmp_path / 'd' / 'kubeconfig'}" in line for line in dray.lines)
        assert asked(tmp_path / "d" / "kubeconfig", "/version")["gitVersion"] == "v1.37.0+dray"
        assert dray.stop(number) == 0


async def test_informers_end_with_the_cluster_and_watch_no_server_that_stops(tmp_path: Path) -> None:
    options = ClusterOptions(dir=tmp_path / "d", port=0, store="memory")
    stopping = asyncio.Event()

    async def stop() -> None:
        await eventually(lambda: any(informing()))
        stopping.set()

    def ready(*_: object) -> None:
        tasks.append(asyncio.create_task(stop()))

    tasks: list[asyncio.Task[None]] = []
    assert await serve_until(stopping, options, plan_of(options), ready) == 0
    assert not informing()


def informing() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("informer ")]


def test_the_kubeconfig_is_for_its_owner_only(tmp_path: Path) -> None:
    with Dray("up", "--dir", tmp_path, "--port", "0", "--store", "memory"):
        for name in ("kubeconfig", "admin.token", "ca.key", "server.key"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_state_and_keys_outlive_the_process(tmp_path: Path) -> None:
    with Dray("up", "--dir", tmp_path, "--port", "0") as dray:
        before = asked(tmp_path / "kubeconfig", "/api/v1/namespaces/default")
        assert dray.stop() == 0
    token = (tmp_path / "admin.token").read_text()
    with Dray("up", "--dir", tmp_path, "--port", "0"):
        assert asked(tmp_path / "kubeconfig", "/api/v1/namespaces/default") == before
    assert (tmp_path / "admin.token").read_text() == token


def test_an_insecure_server_serves_everybody_on_this_machine(tmp_path: Path) -> None:
    with Dray("apiserver", "--dir", tmp_path, "--port", "0", "--store", "memory", "--insecure"):
        assert asked(tmp_path / "kubeconfig", "/api/v1/namespaces/default")["kind"] == "Namespace"
    code, text = outcome("apiserver", "--dir", tmp_path, "--insecure", "--host", "0.0.0.0")
    assert (code, "this machine only" in text) == (1, True)


def test_gates_decide_what_is_served(tmp_path: Path) -> None:
    gates = "DRAResourcePoolStatus=true"
    with Dray("up", "--dir", tmp_path, "--port", "0", "--store", "memory", "--feature-gates", gates):
        groups = asked(tmp_path / "kubeconfig", "/apis/resource.k8s.io")
    assert "v1alpha3" in [version["version"] for version in groups["versions"]]


def test_a_watch_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with Dray("apiserver", "--dir", tmp_path, "--port", "0", "--store", "memory", "--insecure") as dray:
        server = yaml.safe_load((tmp_path / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
        with urllib.request.urlopen(f"{server}/api/v1/namespaces?watch=true", timeout=SECONDS) as watch:
            assert watch.readline()
            assert dray.stop() == 0


# What can go wrong


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, text = outcome("up", "--dir", tmp_path, "--port", str(port))
    assert code == 1
    assert (
        text == f"dray up: port {port} on 127.0.0.1 is taken; stop what listens there, or choose another with --port\n"
    )


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, text = outcome("up", "--dir", tmp_path / "file" / "d", "--port", "0")
    assert code == 1
    assert re.fullmatch(
        r"dray up: directory .*/file/d cannot be used: Not a directory; choose another with --dir\n", text
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_directory_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0)
    code, text = outcome("up", "--dir", tmp_path / "d", "--port", "0")
    assert (code, "Permission denied" in text) == (1, True)


def test_a_newer_database_is_not_touched(tmp_path: Path) -> None:
    with Dray("up", "--dir", tmp_path, "--port", "0") as dray:
        dray.stop()
    with sqlite3.connect(tmp_path / "state.db") as database:
        database.execute("PRAGMA user_version = 999")
    database.close()
    code, text = outcome("up", "--dir", tmp_path, "--port", "0")
    assert code == 1
    assert "state.db" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--feature-gates", "Nope=true"], "unrecognized feature gate: Nope"),
        (["--runtime-config", "nope/v1=true"], 'unknown API group "nope"'),
        (["--store", "floppy"], "floppy"),
        (["--port", "99999"], "expected a number from 0 to 65535"),
        (["--disable-admission-plugins", "Nope"], "Nope"),
        (["--token-auth-file", "/nonexistent/tokens"], "/nonexistent/tokens"),
    ],
)
def test_options_that_make_no_sense_are_explained(tmp_path: Path, arguments: list[str], text: str) -> None:
    code, said = outcome("up", "--dir", tmp_path, "--port", "0", *arguments)
    assert code == (2 if "/nonexistent" in text else 1)
    assert text in said
    assert "Traceback" not in said
