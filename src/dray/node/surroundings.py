"""What all pods of a node share: the ways to the API server, the runtime, the drivers and the clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dray.api.types.core import Pod
from dray.client import Client, Clock, EventRecorder
from dray.node.cdi import Specs
from dray.node.claims import Claims
from dray.node.environment import Place
from dray.node.health import DeviceHealth
from dray.node.lifecycle import RestartDelays
from dray.node.runtime import Runtime


@dataclass
class Surroundings:
    name: str  # of the node
    root: Path
    address: str
    client: Client
    clock: Clock
    runtime: Runtime
    claims: Claims
    specs: Specs
    health: DeviceHealth
    recorder: EventRecorder
    delays: RestartDelays = field(default_factory=RestartDelays)
    devices: bool = True  # the gate DynamicResourceAllocation

    def place_of(self, pod: Pod) -> Place:
        """Containers share the node's network; those that do not exist get an address where nobody answers."""
        address = self.address
        if self.runtime.name == "fake":
            number = int(pod.metadata.uid.replace("-", "")[:6] or "0", 16)
            address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        return Place(self.name, self.address, address)
