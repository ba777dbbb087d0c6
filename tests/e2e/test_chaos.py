"""Random mischief, then balanced books: nothing leaked, nothing double, all that fits runs.

`DRAY_CHAOS=10000x200 pytest tests/e2e/test_chaos.py` runs it with as many pods and nodes.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from dray.api.types.resource import ResourceClaim
from tests.e2e.chaos import SHARED, Chaos, size
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, Cluster, cluster

PODS, NODE_COUNT = size("1500x50")
DEVICES = 8
SECONDS = max(180.0, PODS / 20)


@pytest.mark.slow
@pytest.mark.timeout(int(4 * SECONDS))
async def test_pods_devices_and_parts_come_and_go_and_the_books_balance() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    async with cluster(NODE_COUNT, DEVICES) as c:
        chaos = Chaos(c.client, PODS, NODE_COUNT, DEVICES, dice)

        async def disturb() -> None:
            await asyncio.sleep(dice.uniform(0.1, 0.6))
            await c.restart(dice.choice((SCHEDULER, CONTROLLERS, NODES)))

        await chaos.run(disturb)
        print(chaos.summary())
        await chaos.settled(SECONDS)
        await nothing_is_left(c)


async def nothing_is_left(c: Cluster) -> None:
    for name in SHARED:
        await c.gone(ResourceClaim, name)
    left: list[object] = []

    async def clean() -> bool:
        held = [version.key for version in c.running.api.storage.cache.list("deviceholds/").versions]
        scheduler = c.scheduler
        left[:] = (
            held,
            len(scheduler.core.queue),
            scheduler.core.state.devices.index.taken,
            [*scheduler.core.state.table.placed()],
        )
        return not any(left)

    try:
        await c.eventually(clean)
    except AssertionError:
        raise AssertionError(f"left behind: {left}") from None
