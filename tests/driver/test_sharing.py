"""Counters and portions as the API server takes them."""

from __future__ import annotations

import pytest

from dray.api.types.resource import ResourceSlice
from dray.client import Client
from dray.driver import Pool, Pools, Publisher, consumes, counter_set, device, portions
from tests.driver.conftest import NODE
from tests.driver.places import background


async def published(client: Client, pools: Pools) -> list[ResourceSlice]:
    publisher = Publisher(client, "gpu.example.com", NODE)
    publisher.publish(pools)
    async with background(publisher.run()):
        await publisher.published()
    return [*(await client.list(ResourceSlice)).items]


async def test_partitions_and_what_they_share_reach_the_server_whole(client: Client) -> None:
    halves = [
        device(f"half-{number}", consumesCounters=[consumes("gpu-0", {"memory": "20Gi", "units": 1})])
        for number in range(2)
    ]
    pool = Pool(halves, shared_counters=[counter_set("gpu-0", {"memory": "40Gi", "units": 2})])
    counters, devices = await published(client, {NODE: pool})
    assert counters.spec.sharedCounters[0].counters["memory"].value == "40Gi"
    assert devices.spec.devices[1].consumesCounters[0].counterSet == "gpu-0"
    assert devices.spec.devices[1].consumesCounters[0].counters["units"].value == "1"


async def test_a_shared_capacity_says_which_portions_there_are(client: Client) -> None:
    ranged = portions("10G", default="1G", minimum="1G", maximum="10G", step="500M")
    fixed = portions(8, default=1, values=[1, 2, 4])
    nic = device("nic-0", capacity={"bandwidth": ranged, "queues": fixed}, allowMultipleAllocations=True)
    (found,) = await published(client, {NODE: Pool([nic])})
    capacity = found.spec.devices[0].capacity
    assert capacity["bandwidth"].requestPolicy is not None
    assert capacity["bandwidth"].requestPolicy.validRange is not None
    assert capacity["bandwidth"].requestPolicy.validRange.step == "500M"
    assert capacity["queues"].requestPolicy is not None
    assert capacity["queues"].requestPolicy.validValues == ("1", "2", "4")


def test_portions_are_either_listed_or_a_range_with_a_minimum() -> None:
    with pytest.raises(ValueError, match="either values or a range"):
        portions(8, default=1, values=[1, 2], minimum=1)
    with pytest.raises(ValueError, match="needs a minimum"):
        portions(8, default=1, maximum=4)
