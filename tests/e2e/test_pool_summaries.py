"""How much is left of partitions and shares, asked of a whole cluster through ResourcePoolStatusRequests."""

from __future__ import annotations

from typing import Any

from dray.api.types.core import Node, Pod
from dray.api.types.resource import PoolStatus, ResourcePoolStatusRequest, ResourceSlice
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.objects import pod
from tests.e2e.test_partitions_and_shares import MIG, NIC, publish

ON = "DRAResourcePoolStatus=true,DRAPartitionableDevicesType=true"
PROFILE = f"{MIG}/profile"


async def asked(c: Cluster, name: str, driver: str, **spec: Any) -> PoolStatus:
    await c.create(ResourcePoolStatusRequest, {"metadata": {"name": name}, "spec": {"driver": driver, **spec}})

    async def answered() -> PoolStatus | None:
        status = (await c.client.get(ResourcePoolStatusRequest, name)).status
        return status.pools[0] if status is not None and status.pools else None

    found = await c.eventually(answered)
    assert found is not None
    return found


async def ready(c: Cluster) -> None:
    async def there() -> bool:
        return bool((await c.client.list(Node)).items)

    await c.eventually(there)
    await publish(c)


async def test_summaries_follow_what_pods_use_and_give_back() -> None:
    async with cluster(nodes=1, devices=1, gates=ON) as c:
        await ready(c)
        await c.client.patch(ResourceSlice, "gpu-parts", {"spec": {"partitionTypeAttribute": PROFILE}})
        await c.create(
            Pod, pod("half", templates=["half"]), pod("s", templates=["small"]), pod("n", templates=["share"])
        )
        await c.runs("half", "s", "n")
        gpus = await asked(c, "gpus", MIG)
        assert gpus.validationError is None
        assert [(one.attribute, one.type, one.total, one.allocatable) for one in gpus.partitionSummary] == [
            (PROFILE, "half", 2, 0),
            (PROFILE, "small", 8, 3),
        ]
        nics = (await asked(c, "nics", NIC)).shareableSummary
        assert nics is not None
        assert (nics.fullyAvailableDevices, nics.partiallyAvailableDevices) == (0, 1)
        assert [(one.total, one.consumed, one.available) for one in nics.capacity] == [("10", "4", "6")]
        for name in ("half", "s", "n"):
            await c.delete(Pod, name)
            await c.gone(Pod, name)

        async def free() -> bool:
            return not c.scheduler.core.state.devices.index.taken and not c.scheduler.core.state.devices.index.shares

        await c.eventually(free)
        again = await asked(c, "again", MIG)
        assert [one.allocatable for one in again.partitionSummary] == [2, 8]


async def test_types_are_told_by_whoever_asks_and_not_at_all_without_the_gate() -> None:
    async with cluster(nodes=1, devices=1, gates=ON) as c:
        await ready(c)
        assert (await asked(c, "plain", MIG)).partitionSummary == ()
        found = await asked(c, "typed", MIG, defaultPartitionTypeAttribute=PROFILE)
        assert [one.type for one in found.partitionSummary] == ["half", "small"]
    async with cluster(nodes=1, devices=1, gates="DRAResourcePoolStatus=true") as c:
        await ready(c)
        assert (await asked(c, "typed", MIG, defaultPartitionTypeAttribute=PROFILE)).partitionSummary == ()
