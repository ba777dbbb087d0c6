"""A server that does not answer is a warning once for all informers, and again for the next outage."""

from __future__ import annotations

import logging

import pytest

from dray.api.errors import ServiceUnavailable
from dray.client import ManualClock
from dray.client.outage import Outage


async def test_an_outage_is_one_warning_for_all_informers(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    outage = Outage(clock)

    async def fail(seconds: float, *kinds: str) -> list[str]:
        await clock.advance(seconds)
        caplog.clear()
        for kind in kinds:
            outage.report(kind, ServiceUnavailable("connection refused"))
        return [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING]

    [first] = await fail(1000.0, "pods", "nodes", "jobs.batch")
    assert first.startswith("pods")
    assert "connection refused" in first
    assert await fail(30.0, "pods") == []
    assert await fail(30.0, "nodes") == []
    assert len(await fail(3600.0, "nodes", "pods")) == 1
