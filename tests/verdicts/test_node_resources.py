"""What devices take from their node: mapped amounts once, overhead for each pod and container."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api.podclaims import Use
from dray.api.types.core import NodeAllocatableResourceClaimStatus, ResourceRequirements
from dray.api.types.resource import AllocationResult, Device
from dray.verdicts.demand import containers_demand, demand_of
from dray.verdicts.node_resources import amounts_of, demand_on_node, is_mapped, node_claims, uncovered, with_claims
from tests.scheduler.objects import pod

USES = (Use("entry", "claim", generated=False, by_group=False),)


def device(**resources: Any) -> Device:
    tree = {"name": "d", "capacity": {"cpus": {"value": "8"}}, "nodeAllocatableResources": resources}
    return msgspec.convert(tree, Device)


def allocation(*entries: dict[str, Any]) -> AllocationResult:
    results = [{"driver": "x.io", "pool": "p", "device": "d", **entry} for entry in entries or ({},)]
    return msgspec.convert({"devices": {"results": results}}, AllocationResult)


def user(**more: Any) -> Any:
    return pod("p", resources={"requests": {"cpu": "1"}, "claims": [{"name": "entry"}]}, **more)


def claims(one: Device, got: AllocationResult | None = None) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    return node_claims(user(), USES, {"claim": got or allocation()}, lambda id_: one)


def test_a_device_stands_for_a_part_of_its_node() -> None:
    mapped = device(cpu={"mapping": {"deviceMultiplier": "2"}}, memory={"mapping": {"deviceMultiplier": "1Gi"}})
    [told] = claims(mapped, allocation({}, {}))
    assert (told.resourceClaimName, told.containers) == ("claim", ("c",))
    assert [(one.name, one.quantity) for one in told.mapping] == [("cpu", "4"), ("memory", "2Gi")]
    assert amounts_of((told,)) == {"cpu": 4000, "memory": 2 * 1024**3}


def test_what_is_consumed_of_a_capacity_counts_times_its_multiplier() -> None:
    mapped = device(cpu={"mapping": {"capacityKey": "cpus", "capacityMultiplier": "2"}})
    assert claims(mapped, allocation({"consumedCapacity": {"cpus": "1500m"}}))[0].mapping[0].quantity == "3"
    qualified = device(cpu={"mapping": {"capacityKey": "x.io/cpus", "capacityMultiplier": "2"}})
    assert claims(qualified, allocation({"consumedCapacity": {"cpus": "1"}}))[0].mapping[0].quantity == "2"
    assert claims(mapped)[0].mapping[0].quantity == "16"  # the whole device


def test_overhead_counts_for_the_pod_and_for_each_container_that_uses_the_claim() -> None:
    heavy = device(memory={"overhead": {"perPod": "100Mi", "perContainer": "50Mi"}})
    told = claims(heavy)
    assert amounts_of(told) == {"memory": 150 * 1024**2}
    assert amounts_of(node_claims(user(), (), {"claim": allocation()}, lambda id_: heavy)) == {"memory": 100 * 1024**2}
    assert not is_mapped(allocation(), lambda id_: heavy)
    assert is_mapped(allocation(), lambda id_: device(cpu={"mapping": {"deviceMultiplier": "1"}}))


def test_overhead_counts_once_for_a_container_that_uses_a_claim_through_two_entries() -> None:
    heavy = device(memory={"overhead": {"perPod": "100Mi", "perContainer": "50Mi"}})
    twice = pod("p", resources={"claims": [{"name": "entry"}, {"name": "again"}]})
    uses = (*USES, Use("again", "claim", generated=False, by_group=False))
    told = node_claims(twice, uses, {"claim": allocation()}, lambda id_: heavy)
    assert [one.containers for one in told] == [("c",)]
    assert amounts_of(told) == {"memory": 150 * 1024**2}


def test_a_pod_takes_what_its_claims_take_and_says_so_itself() -> None:
    told = claims(device(cpu={"mapping": {"deviceMultiplier": "2"}}))
    assert with_claims(user(), demand_of(user()), told).amounts == {"cpu": 3000}
    placed = replace(user(), status=replace(user().status, nodeAllocatableResourceClaimStatuses=told))
    assert demand_on_node(placed).amounts == {"cpu": 3000}


def test_a_pod_that_requests_as_a_whole_must_cover_its_claims() -> None:
    told = claims(device(cpu={"mapping": {"deviceMultiplier": "2"}}))
    covered, tight = (
        replace(user(), spec=replace(user().spec, resources=ResourceRequirements(requests={"cpu": cpu})))
        for cpu in ("3", "2")
    )
    assert uncovered(covered, containers_demand(covered), told) == ""
    assert with_claims(covered, demand_of(covered), told).amounts == {"cpu": 3000}
    assert uncovered(tight, containers_demand(tight), told) == "cpu"


def test_devices_that_nobody_publishes_take_nothing() -> None:
    assert node_claims(user(), USES, {"claim": allocation()}, lambda id_: None) == ()
