"""What is left of partitions and of shares in a pool."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.controllers.poolstatus.computation import PoolCount, answer, complete_status, count
from tests import objects

DRIVER = "gpu.example.com"
PROFILE = f"{DRIVER}/profile"


def part_of(name: str, of: int = 2, **spec: Any) -> ResourceSlice:
    """One of the slices of a pool."""
    return msgspec.convert(objects.resource_slice(name, driver=DRIVER, pool="p", count=of, **spec), ResourceSlice)


def partition(name: str, profile: str | None, memory: int) -> dict[str, Any]:
    drawn = [{"counterSet": "gpu", "counters": {"memory": {"value": str(memory)}}}]
    attributes = {"profile": {"string": profile}} if profile else {}
    return {"name": name, "attributes": attributes, "consumesCounters": drawn}


def shareable(name: str, bandwidth: str) -> dict[str, Any]:
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": bandwidth}}}


COUNTERS = part_of("a", sharedCounters=[{"name": "gpu", "counters": {"memory": {"value": "8"}}}])
PARTITIONS = [partition(f"small-{at}", "1g", 1) for at in range(7)] + [
    partition(f"half-{at}", "3g", 4) for at in (0, 1)
]


def claim_with(device: str, **more: Any) -> ResourceClaim:
    result = {"request": "r", "driver": DRIVER, "pool": "p", "device": device, **more}
    status = {"allocation": {"devices": {"results": [result]}}}
    return msgspec.convert(objects.claim(status=status), ResourceClaim)


def test_partitions_are_counted_type_by_type() -> None:
    slices = [COUNTERS, part_of("b", devices=PARTITIONS, partitionTypeAttribute=PROFILE)]
    found = count(slices, [claim_with("small-0")])
    assert found.summaries.partitions == (
        {"attribute": PROFILE, "type": "1g", "total": 7, "allocatable": 6},
        {"attribute": PROFILE, "type": "3g", "total": 2, "allocatable": 1},
    )
    assert (found.total, found.allocated, found.unavailable, found.available) == (9, 1, 0, 8)


def test_a_partition_for_which_too_little_is_left_is_unavailable() -> None:
    slices = [COUNTERS, part_of("b", devices=PARTITIONS)]
    found = count(slices, [claim_with("half-0"), claim_with("small-0")])
    assert (found.allocated, found.unavailable, found.available) == (2, 1, 6)


def test_whoever_asks_says_what_tells_partitions_apart_where_no_slice_does() -> None:
    slices = [COUNTERS, part_of("b", devices=PARTITIONS)]
    assert count(slices, []).summaries.partitions == ()
    found = answer(slices, lambda *_: [], partition_type=PROFILE).pools[0]
    assert [entry["type"] for entry in found.summaries.partitions] == ["1g", "3g"]
    own = [COUNTERS, part_of("b", devices=PARTITIONS, partitionTypeAttribute="example.com/other")]
    problem = answer(own, lambda *_: [], partition_type=PROFILE).pools[0].problem
    assert problem is not None
    assert problem.startswith("PartitionTypeMissing: device small-0 has no attribute example.com/other")


def typed(*devices: dict[str, Any]) -> PoolCount:
    return count([COUNTERS, part_of("b", devices=[*devices], partitionTypeAttribute=PROFILE)], [])


def test_partitions_of_one_type_that_take_different_amounts_are_a_mistake() -> None:
    found = typed(partition("a", "half", 4), partition("b", "half", 5))
    assert found.problem is not None
    assert found.problem.startswith("PartitionCostMismatch: devices of partition type half")
    assert (found.summaries.partitions, found.total, found.available) == ((), 2, 2)


def test_partitions_of_one_type_may_stand_on_several_devices_and_places() -> None:
    sets = [{"name": name, "counters": {f"slice-{at}": {"value": "1"} for at in range(2)}} for name in ("x", "y")]
    devices = [
        {
            "name": f"{name}-{at}",
            "attributes": {"profile": {"string": "1g"}},
            "consumesCounters": [{"counterSet": name, "counters": {f"slice-{at}": {"value": "1"}}}],
        }
        for name in ("x", "y")
        for at in range(2)
    ]
    slices = [part_of("a", sharedCounters=sets), part_of("b", devices=devices, partitionTypeAttribute=PROFILE)]
    found = count(slices, [claim_with("x-1")])
    assert found.problem is None
    assert found.summaries.partitions == ({"attribute": PROFILE, "type": "1g", "total": 4, "allocatable": 3},)


def test_what_tells_partitions_apart_must_be_a_string_and_counters_must_be_there() -> None:
    numbered = {**partition("a", None, 1), "attributes": {"profile": {"int": 1}}}
    assert (typed(numbered).problem or "").startswith("PartitionTypeMissing: device a has no attribute")
    plain = count([part_of("b", of=1, devices=[{"name": "a"}], partitionTypeAttribute=PROFILE)], [])
    assert (plain.problem or "").startswith("PartitionTypeMissing: ")


def test_no_more_types_are_listed_than_the_api_takes() -> None:
    many = [partition(f"d{at}", f"type-{at:02}", 0) for at in range(40)]
    found = count([COUNTERS, part_of("b", devices=many, partitionTypeAttribute=PROFILE)], [])
    assert (found.summaries.partitions, found.total) == ((), 40)
    assert found.problem == "PartitionSummaryOverCap: 40 types of partitions, 32 can be listed"
    capacity = {f"c{at:02}": {"value": "1"} for at in range(33)}
    wide = {"name": "w", "allowMultipleAllocations": True, "capacity": capacity}
    shared = count([part_of("a", of=1, devices=[wide])], [])
    assert shared.summaries.shareable is None
    assert shared.problem == "ShareableSummaryOverCap: 33 capacities, 32 can be listed"


def test_shares_are_added_up() -> None:
    slices = [part_of("a", of=1, devices=[shareable("x", "10G"), shareable("y", "5G"), {"name": "z"}])]
    held = claim_with("x", shareID="s", consumedCapacity={"bandwidth": "2500M"})
    found = count(slices, [held, claim_with("z")])
    assert found.summaries.shareable == {
        "fullyAvailableDevices": 1,
        "partiallyAvailableDevices": 1,
        "capacity": [{"name": "bandwidth", "total": "15G", "consumed": "2500M", "available": "12500M"}],
    }
    assert count([part_of("a", of=1, devices=[{"name": "z"}])], []).summaries.shareable is None


def test_admin_access_consumes_nothing() -> None:
    slices = [part_of("a", of=1, devices=[shareable("x", "10G")])]
    held = claim_with("x", shareID="s", consumedCapacity={"bandwidth": "1G"}, adminAccess=True)
    summary = count(slices, [held]).summaries.shareable
    assert summary is not None
    assert summary["capacity"][0]["consumed"] == "0"


def test_summaries_are_part_of_the_status() -> None:
    slices = [COUNTERS, part_of("b", devices=[*PARTITIONS, shareable("x", "1")], partitionTypeAttribute=PROFILE)]
    status = complete_status(answer(slices, lambda *_: []), "2026-01-01T00:00:00Z")
    assert [entry["type"] for entry in status["pools"][0]["partitionSummary"]] == ["1g", "3g"]
    assert status["pools"][0]["shareableSummary"]["fullyAvailableDevices"] == 1
