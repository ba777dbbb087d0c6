"""`dray node --simulated`: nodes with devices for any API server, which touch no node of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.api.types.coordination import Lease
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.assembly.component import ComponentError
from dray.assembly.simulated_nodes import SimulationOptions, StandaloneSimulation
from dray.client.readiness import Readiness
from dray.sim.hardware import node_tree
from tests.cli.running import outcome
from tests.e2e.cluster import CONTROLLERS, SCHEDULER, Cluster, cluster
from tests.e2e.objects import claim, pod
from tests.waiting import within

TOLERANT = {"tolerations": [{"key": "dray.dev/simulated", "operator": "Exists"}]}


@asynccontextmanager
async def simulating(c: Cluster, **options: Any) -> AsyncIterator[None]:
    client: Any = c.client  # in the process, where the command has HTTP
    readiness = Readiness()
    simulation = StandaloneSimulation(SimulationOptions(**options))
    task = asyncio.create_task(simulation.run(client, c.gates, readiness))
    await within(readiness.started())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_pods_that_tolerate_simulated_nodes_get_devices_there_and_others_stay_away() -> None:
    async with (
        cluster(parts=(CONTROLLERS, SCHEDULER)) as c,
        simulating(c, simulated=2, devices=1, profile="cpu*1", name_prefix="sim"),
    ):
        nodes = {node.metadata.name: node for node in (await c.client.list(Node)).items}
        assert [*nodes] == ["cpu-0", "sim-0", "sim-1"]
        assert all(node.spec.taints[0].effect == "NoSchedule" for node in nodes.values())
        assert {piece.spec.nodeName for piece in (await c.client.list(ResourceSlice)).items} == {*nodes}
        await c.create(ResourceClaim, claim("c"), claim("d"))
        await c.create(Pod, pod("strange", claims=["d"]), pod("p", claims=["c"], **TOLERANT))
        assert (await c.runs("p")).spec.nodeName.startswith("sim-")
        await c.waits("strange", "untolerated taint")


async def test_the_lease_of_a_node_goes_with_the_node() -> None:
    async with cluster(parts=(CONTROLLERS,)) as c, simulating(c, simulated=1):
        await c.delete(Node, "simulated-0", "")

        async def gone() -> bool:
            return not (await c.client.list(Lease, "kube-node-lease")).items

        await c.eventually(gone)


async def test_a_node_of_others_is_not_touched() -> None:
    async with cluster(parts=()) as c:
        tree = node_tree(0, "2024-01-01T00:00:00Z", "simulated-1")
        del tree["metadata"]["labels"]["dray.dev/simulated"], tree["metadata"]["annotations"]
        before = await c.create(Node, tree)
        client: Any = c.client
        simulation = StandaloneSimulation(SimulationOptions(simulated=2))
        with pytest.raises(ComponentError, match="node simulated-1 exists and is not simulated"):
            await simulation.run(client, c.gates, Readiness())
        assert (await c.client.list(Node)).items == (before,)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "expected --name and --root, or --simulated N"),
        (["--simulated", "-1"], "--simulated: expected a number from 0, got -1"),
        (["--simulated", "1", "--devices", "-1"], "--devices: expected a number from 0"),
        (["--simulated", "1", "--name", "n"], "simulated nodes have --name-prefix"),
        (["--profile", "nope*2"], "nope"),
        (["--simulated", "1", "--job-seconds", "nan"], "--job-seconds"),
    ],
)
def test_options_that_make_no_sense_are_explained(options: list[str], expected: str) -> None:
    code, said = outcome("node", *options)
    assert code != 0
    assert expected in said
    assert "Traceback" not in said
