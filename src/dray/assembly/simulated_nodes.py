"""Simulated nodes as a separate process for any API server, to test a control plane with many nodes.

Nodes of a real cluster are never changed: an existing node that is not marked as simulated ends the command.
Simulated nodes have a taint, so pods without a toleration stay off them. They remain when the process ends, and
become not ready when their leases expire. Delete them with `kubectl delete nodes -l dray.dev/simulated=true`.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from dray.api.gates import FeatureGates
from dray.api.simulated import SIMULATED
from dray.api.times import timestamp
from dray.api.types.core import Node
from dray.api.wire import Tree
from dray.assembly.component import ComponentError
from dray.assembly.options import SIMULATED_PODS
from dray.assembly.parts import pod_range
from dray.client import Client, SharedInformers
from dray.client.http import Http
from dray.client.readiness import Readiness
from dray.sim import SimulatedNodes, hardware
from dray.sim.profiles import objects_of

TAINT = {"key": SIMULATED, "value": "true", "effect": "NoSchedule"}


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `dray node --simulated`: number of nodes and devices, and profiles."""

    simulated: int = 0
    devices: int = 8
    profile: str = ""
    name_prefix: str = "simulated"
    job_seconds: float = 10.0
    untainted: bool = False
    simulated_pod_cidr: str = SIMULATED_PODS


class StandaloneSimulation:
    """Simulated nodes from validated options. Creating it raises ValueError."""

    def __init__(self, options: SimulationOptions) -> None:
        for name in ("simulated", "devices"):
            if getattr(options, name) < 0:
                raise ValueError(f"--{name}: expected a number from 0, got {getattr(options, name)}")
        if not options.job_seconds >= 0:
            raise ValueError(f"--job-seconds: expected a number from 0, or inf, got {options.job_seconds:g}")
        self._job_seconds = options.job_seconds
        self._pod_range = pod_range(options.simulated_pod_cidr)
        self._trees = _trees(options)
        self._names = {tree["metadata"]["name"] for tree in self._trees if tree["kind"] == "Node"}
        if not self._names:
            raise ValueError("there are no nodes to simulate: --simulated and --profile name none")

    async def run(self, client: Http, gates: FeatureGates, readiness: Readiness) -> None:
        """Run the simulated nodes until cancelled. Raises ComponentError if a real node has one of the names."""
        await self._refuse_real_nodes(client)
        informers = SharedInformers(client)
        nodes = SimulatedNodes(
            client,
            informers,
            0,
            0,
            gates=gates,
            profiled=self._trees,
            job_seconds=self._job_seconds,
            pod_range=self._pod_range,
        )
        readiness.check("informers", lambda: [*informers.denied.values()])

        async def report() -> None:
            await asyncio.gather(nodes.registered.wait(), informers.synced())
            readiness.start()

        try:
            await informers.start()
            await asyncio.gather(nodes.run(), report())
        finally:
            await informers.stop()

    async def _refuse_real_nodes(self, client: Client) -> None:
        """Raise ComponentError if a node has one of the names and is not simulated."""
        for node in (await client.list(Node)).items:
            if node.metadata.name in self._names and node.metadata.labels.get(SIMULATED) != "true":
                raise ComponentError(
                    f"node {node.metadata.name} exists and is not simulated; choose other names with --name-prefix"
                )


def _trees(options: SimulationOptions) -> list[Tree]:
    """Return the Nodes, ResourceSlices and DeviceClass to create for the options."""
    now = timestamp(time.time())
    trees: list[Tree] = []
    if options.simulated and options.devices:
        trees.append(hardware.class_tree())
    for number in range(options.simulated):
        name = f"{options.name_prefix}-{number}"
        trees += [hardware.node_tree(number, now, name), *hardware.plain_slices(name, options.devices)]
    if options.profile:
        trees += objects_of(options.profile, now, options.simulated)
    if not options.untainted:
        for tree in trees:
            if tree["kind"] == "Node":
                tree["spec"] = {**tree["spec"], "taints": [TAINT]}
    return trees
