"""What is left of partitions and shares, and how much still fits."""

from __future__ import annotations

from typing import Any

import pytest

from dray.inspect.snapshot import Snapshot
from dray.questions.occupancy import DeviceRow, device_rows, pool_rows
from tests.inspect.objects import device, gpus, held, shared


def rows(*objects: Any) -> dict[str, DeviceRow]:
    return {row.device: row for row in device_rows(Snapshot.of(*objects))}


def partition(name: str, memory: int) -> dict[str, Any]:
    return device(name, consumesCounters=[{"counterSet": "gpu-0", "counters": {"memory": {"value": f"{memory}Gi"}}}])


PARTITIONED = (
    gpus("n1", 0, name="counters", of=2, sharedCounters=[{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]),
    gpus("n1", [partition("whole", 80), partition("half-0", 40), partition("half-1", 40)], of=2),
)


def nic(policy: dict[str, Any] | None = None) -> dict[str, Any]:
    bandwidth: dict[str, Any] = {"value": "10G", **({"requestPolicy": policy} if policy else {})}
    return {"name": "nic", "allowMultipleAllocations": True, "capacity": {"bandwidth": bandwidth}}


def test_a_partition_whose_counters_are_used_up_is_blocked() -> None:
    found = rows(*PARTITIONED, held("x", "half-0"))
    assert {name: row.state for name, row in found.items()} == {
        "whole": "blocked",
        "half-0": "allocated",
        "half-1": "free",
    }
    [counter] = found["half-1"].partial.counters
    assert (counter.counter_set, counter.drawn, counter.left, counter.total) == ("gpu-0", "40Gi", "40Gi", "80Gi")


def test_shares_are_listed_with_who_has_them_and_what_is_left() -> None:
    found = rows(gpus("n1", [nic()]), shared("a", "nic", bandwidth="6G"), shared("b", "nic", bandwidth="1G"))["nic"]
    assert found.state == "shared"
    assert [(one.claim, one.consumed) for one in found.partial.shares] == [
        ("default/a", {"bandwidth": "6G"}),
        ("default/b", {"bandwidth": "1G"}),
    ]
    assert (found.partial.left, found.partial.fits) == ({"bandwidth": "3G"}, {"bandwidth": "3G"})


@pytest.mark.parametrize(
    ("policy", "fits"),
    [
        ({"default": "1G", "validRange": {"min": "1G", "step": "2G"}}, {"bandwidth": "3G"}),
        ({"default": "1G", "validRange": {"min": "1G", "max": "2G"}}, {"bandwidth": "2G"}),
        ({"default": "1G", "validValues": ["1G", "2G", "8G"]}, {"bandwidth": "2G"}),
        ({"default": "8G", "validValues": ["8G"]}, {}),
        ({"default": "5G", "validRange": {"min": "5G"}}, {}),
    ],
)
def test_how_much_fits_is_what_the_policy_allows(policy: dict[str, Any], fits: dict[str, str]) -> None:
    found = rows(gpus("n1", [nic(policy)]), shared("a", "nic", bandwidth="6G"))["nic"]
    assert found.partial.left == {"bandwidth": "4G"}
    assert found.partial.fits == fits


def test_every_share_counts_in_the_pool() -> None:
    shares = (shared("a", "nic", bandwidth="6G"), shared("b", "nic", bandwidth="1G"))
    [pool] = pool_rows(Snapshot.of(gpus("n1", [nic(), {"name": "other"}]), *shares))
    assert (pool.total, pool.allocated, pool.available) == (2, 1, 1)
