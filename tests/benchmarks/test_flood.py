"""The measurement of a flood of slices, small: it updates, and schedules meanwhile."""

from __future__ import annotations

import pytest

from dray.benchmarks.flood import Flood, slowdown


@pytest.mark.parametrize("flood", [Flood(None), Flood(None, regenerate=True), Flood(200)], ids=str)
async def test_pods_are_scheduled_with_and_without_the_flood(flood: Flood) -> None:
    found = await slowdown(3, 8, 20, flood, waiting=5)
    assert found.alone > 0
    assert found.flooded > 0
    assert found.updates > 0
    assert -1 < found.part < 1
