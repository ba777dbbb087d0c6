"""A store that cannot be used is told by readiness, log and metrics, and so is its return."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dray.apiserver import store_health
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, serving
from tests.store.etcd_process import Etcd
from tests.waiting import eventually

MAPS = "/api/v1/namespaces/default/configmaps"


async def metric(server: HttpAsker, name: str) -> float:
    _, text = await server.text("/metrics")
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found is not None, text
    return float(found[1])


async def test_an_etcd_without_space_is_told_until_it_has_space_again(
    keys: Keys, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_health, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(store_health, "_PROBE_SECONDS", 0.0)
    etcd = Etcd(tmp_path, "--quota-backend-bytes=2000000")
    etcd.start()
    try:
        async with serving(keys, store=f"etcd://{etcd.endpoint}") as server:
            assert await metric(server, "dray_store_failing_seconds") == 0
            for number in range(100):
                body = {"metadata": {"name": f"large-{number}"}, "data": {"a": "x" * 200_000}}
                code, answer = await server("POST", MAPS, body)
                if code != 201:
                    break
            assert code == 503
            assert "etcdctl alarm disarm" in answer["message"]
            assert await eventually(lambda: "the store cannot be used" in caplog.text)
            code, text = await server.text("/readyz")
            assert (code, "[-]store failed" in text, "space" in text) == (500, True, True)
            assert (await server.text("/livez"))[0] == 200
            assert (await server("GET", f"{MAPS}/large-0"))[0] == 200
            assert await metric(server, "dray_store_failing_seconds") > 0
            failures = 'dray_store_operation_failures_total{kind="EtcdRefused",operation="commit"}'
            assert await metric(server, failures) > 0
            make_room(etcd)
            assert await eventually(lambda: "the store can be used again" in caplog.text)
            assert await server.text("/readyz") == (200, "ok")
            code, _ = await server("POST", MAPS, {"metadata": {"name": "small"}})
            assert code == 201
            assert await metric(server, 'dray_store_operation_seconds_count{operation="commit"}') > 0
            assert await metric(server, "dray_watch_cache_lag_seconds_count") > 0
    finally:
        etcd.kill()
    assert caplog.text.count("the store cannot be used") == 1


def make_room(etcd: Etcd) -> None:
    """What an administrator does: remove something, compact, defragment, and take the alarm back."""
    etcd.control("del", "--prefix", "/dray/configmaps/default/large-")
    status = json.loads(etcd.control("endpoint", "status", "-w", "json"))
    etcd.control("compact", str(status[0]["Status"]["header"]["revision"]))
    etcd.control("defrag")
    etcd.control("alarm", "disarm")


async def test_a_server_that_is_about_to_end_is_not_ready_and_still_answers(keys: Keys) -> None:
    async with serving(keys) as server:
        server.running.announce_end()
        code, text = await server.text("/readyz")
        assert (code, "[-]shutdown failed: the server is shutting down" in text) == (500, True)
        assert (await server.text("/livez"))[0] == 200
        assert (await server("POST", MAPS, {"metadata": {"name": "late"}}))[0] == 201


async def test_watches_of_a_server_that_ends_say_where_to_go_on(keys: Keys) -> None:
    async with serving(keys) as server:
        start = (await server("GET", MAPS))[1]["metadata"]["resourceVersion"]
        async with server.send("GET", f"{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={start}") as stream:
            made = (await server("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "other"}}))[1]
            server.running.drain()
            events = [json.loads(line) async for line in stream.content]
    assert [event["type"] for event in events] == ["BOOKMARK"]
    assert events[0]["object"]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
