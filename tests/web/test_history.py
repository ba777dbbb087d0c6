"""The last hour: what the map was, how far back it goes, and that it is bounded."""

from __future__ import annotations

import asyncio
import time

import pytest

from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.web import history as module
from dray.web.history import ABSENT, DashboardHistory, Was
from tests.web.serving import Browser, Served, allocate, device, publish


def _row(state: int, *claims: int) -> tuple[object, ...]:
    return (0, 0, 0, state, 0, claims, None, None)


def _at(history: DashboardHistory, at: int) -> dict[int, Was]:
    found: dict[int, Was] = {}
    for _ in history.back_to(at, found):
        pass
    return found


def test_going_back_finds_what_each_device_was() -> None:
    history = DashboardHistory(100.0)
    history.changed(1, None, 101.2)
    history.changed(1, _row(0), 103.5)
    history.changed(1, _row(1, 7), 103.9)
    history.changed(2, _row(0), 105.0)
    assert _at(history, 106) == {}
    assert _at(history, 104) == {2: Was(0, ())}
    assert _at(history, 103) == {2: Was(0, ()), 1: Was(0, ())}
    assert _at(history, 101)[1] == Was(ABSENT, ())


def test_what_is_older_than_an_hour_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    history = DashboardHistory(1000.0)
    history.changed(1, _row(0), 1001.0)
    history.claim_gone(7, "default/a", 1001.0)
    history.changed(2, _row(0), 5000.0)
    history.sample((5000.0, 1, 0, 0, 0, 0, 0))
    assert history.since == 5000 - module.SECONDS
    assert history.claim_name(7) == ""
    monkeypatch.setattr(module, "MOST_CHANGES", 10)
    for second in range(20):
        for number in range(5):
            history.changed(number, _row(0), 5001.0 + second)
    history.sample((5020.0, 1, 0, 0, 0, 0, 0))
    assert 5015 < history.since < 5020, "says how far back it goes"
    monkeypatch.setattr(module, "MOST_GONE", 3)
    for second in range(10):
        history.claim_gone(second, f"default/c{second}", 5020.0 + second)
    history.sample((5030.0, 1, 0, 0, 0, 0, 0))
    assert history.since >= 5026
    assert (history.claim_name(0), history.claim_name(9)) == ("", "default/c9")


async def test_the_map_as_it_was(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"), device("gpu-1"))
    async with admin.page() as page:
        await allocate(server.client, "early", "n1", "gpu-0")
        await page.wait(lambda: page.state("gpu-0") == "reserved")
        held = await _next_second()
        await server.client.patch(
            ResourceClaim,
            "early",
            {"status": {"allocation": None, "reservedFor": None}},
            "default",
            subresource="status",
        )
        await server.client.delete(ResourceClaim, "early", "default")
        await server.client.delete(ResourceSlice, "n1-slice")
        gpu = page.row("devices", "gpu-0")
        assert gpu is not None
        await page.wait(lambda: page.row("devices", "gpu-0") is None)
        past = await admin.ask("past", at=held)
        assert {
            "id": gpu["id"],
            "pool": "gpu.example.com/n1",
            "name": "gpu-0",
            "state": 1,
            "claims": ["default/early"],
        } in past["gone"]
        assert past["from"] <= held
        now = await admin.ask("past", at=await _next_second())
        assert (now["gone"], now["devices"]["id"], now["absent"]) == ([], [], [])
    for at in (0, time.time() + 3600):
        assert await admin.refused("past", at=at) == (400, "BadRequest", "at")
    assert await admin.refused("past", at="yesterday") == (400, "BadRequest", "at")


async def _next_second() -> float:
    """A moment in a second in which nothing has happened yet: history is kept by the second."""
    await asyncio.sleep(1.05 - time.time() % 1.0)
    return time.time()
