"""When pods must leave a tainted device, decided without a server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.resource import DeviceRequestAllocationResult, DeviceTaint
from dray.controllers.eviction_time import EvictionTime, Tainted, eviction_time_of

ADDED = "2026-01-01T00:00:00Z"
SECONDS = 1767225600.0


def result(*tolerations: dict[str, Any]) -> DeviceRequestAllocationResult:
    tree = {"request": "r", "driver": "d", "pool": "p", "device": "x", "tolerations": tolerations}
    return msgspec.convert(tree, DeviceRequestAllocationResult)


def taint(key: str = "broken", effect: str = "NoExecute", value: str = "", added: str | None = ADDED) -> DeviceTaint:
    return DeviceTaint(key=key, effect=effect, value=value, timeAdded=added)


def exists(seconds: int | None = None, **more: str) -> dict[str, Any]:
    return {"operator": "Exists", "tolerationSeconds": seconds, **more}


def due(time_: EvictionTime | None) -> float | None:
    return None if time_ is None else time_.due - SECONDS


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0),
        ([exists()], None),
        ([exists(60)], 60),
        ([exists(60), exists(30)], 30),
        ([exists(60), exists()], None),
        ([exists(-5)], 0),
        ([exists(key="other")], 0),
        ([exists(60, effect="NoSchedule")], 0),
        ([{"key": "broken", "operator": "Equal", "value": "no"}], 0),
        ([{"key": "broken", "operator": "Equal", "value": ""}], None),
    ],
)
def test_tolerations_delay_or_prevent(tolerations: list[dict[str, Any]], expected: float | None) -> None:
    assert due(eviction_time_of(result(*tolerations), [Tainted(taint())])) == expected


@pytest.mark.parametrize("effect", ["NoSchedule", "None"])
def test_other_effects_evict_nobody(effect: str) -> None:
    assert eviction_time_of(result(), [Tainted(taint(effect=effect))]) is None


def test_the_earliest_taint_decides_and_all_rules_are_named() -> None:
    found = eviction_time_of(
        result(exists(60, key="slow"), exists(10, key="fast")),
        [Tainted(taint("slow"), "rule-1"), Tainted(taint("fast"), "rule-2"), Tainted(taint("slow"))],
    )
    assert found is not None
    assert due(found) == 10
    assert found.rules == {"rule-1", "rule-2"}
    assert found.why == "device d/p/x has taint fast:NoExecute"


def test_a_taint_without_time_is_due_at_once() -> None:
    found = eviction_time_of(result(), [Tainted(taint(added=None, value="v"))])
    assert found == EvictionTime(0.0, 0.0, "device d/p/x has taint broken=v:NoExecute")
