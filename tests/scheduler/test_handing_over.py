"""Another scheduler and dray take turns under one lease, there and back, while pods are created: none is lost."""

from __future__ import annotations

import asyncio

from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.client import LeaderElection, LeaseSettings
from dray.core.configuration import Configuration
from dray.scheduler import Scheduler
from tests.e2e.cluster import NODES, Cluster, cluster
from tests.e2e.interference import Write, interposed
from tests.e2e.objects import claim, pod
from tests.permissions import EVERYTHING, allow, user_client
from tests.scheduler.test_shadow import WORSE

LEASE = LeaseSettings("kube-scheduler", "kube-system", duration=5, renew_deadline=4, retry_period=0.02)
PODS = 8  # created in each turn


class Candidate:
    """A scheduler that works while it has the lease, and gives the lease back when it is stopped."""

    def __init__(self, c: Cluster, name: str, configuration: Configuration) -> None:
        self.bound: set[str] = set()
        self._client, self._gates, self._configuration = user_client(c.running, name), c.gates, configuration
        election = LeaderElection(self._client, LEASE, name)
        self._task = asyncio.create_task(election.run(self._lead))

    async def _lead(self) -> None:
        await Scheduler(interposed(self._client, self._note), self._gates, self._configuration).run()

    async def _note(self, write: Write) -> None:
        if write.binds:
            self.bound.add(write.name)

    async def stop(self) -> None:
        assert not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def burst(c: Cluster, turn: int) -> list[str]:
    """Create pods with a device each; they are not placed yet when this returns."""
    names = [f"p-{turn}-{number}" for number in range(PODS)]
    for name in names:
        await c.create(ResourceClaim, claim(name))
        await c.create(Pod, pod(name, claims=[name]))
    return names


async def test_pods_are_placed_in_every_turn_and_those_that_waited_in_the_next() -> None:
    async with cluster(nodes=5, devices=8, parts=(NODES,)) as c:
        for name in ("theirs", "ours"):
            await allow(c.client, name, EVERYTHING)
        await c.create(Pod, pod("waits", nodeSelector={"zone": "a"}))
        theirs = Candidate(c, "theirs", WORSE)
        await c.waits("waits", "node affinity")
        ours = Candidate(c, "ours", Configuration())  # stands by
        names = await burst(c, 1)
        await theirs.stop()
        names += await burst(c, 2)
        await c.client.patch(Node, "node-3", {"metadata": {"labels": {"zone": "a"}}})
        await c.runs("waits", *names)
        again = Candidate(c, "theirs", WORSE)
        names += await burst(c, 3)
        await ours.stop()
        names += (last := await burst(c, 4))
        await c.runs(*names)
        await again.stop()
    assert {"waits", "p-2-0"} <= ours.bound
    assert {*last} <= again.bound
    assert theirs.bound | ours.bound | again.bound == {"waits", *names}
