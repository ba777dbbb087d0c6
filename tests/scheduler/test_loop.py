"""Turns: how long attempts go on before others have theirs."""

from __future__ import annotations

import asyncio

from dray.api.types.core import Pod
from dray.scheduler import Scheduler
from tests.e2e.cluster import NODES, cluster
from tests.e2e.objects import pod


async def test_a_turn_begins_when_others_have_had_theirs() -> None:
    async def others_first() -> float:
        await asyncio.sleep(0.02)  # clients who ask without a pause keep the scheduler for longer than its turn lasts
        return 0.002

    async with cluster(parts=(NODES,)) as c:
        scheduler = Scheduler(c.client_of("scheduler"), c.gates, give_way=others_first)
        running = asyncio.create_task(scheduler.run())
        try:
            await c.create(Pod, pod("p"))
            await c.runs("p")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
