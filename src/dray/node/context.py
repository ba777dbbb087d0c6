"""Objects that all pods of a node share: the API client, the runtime, the drivers, the clock and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Network
from pathlib import Path

from dray.api import simulated
from dray.api.types.core import Pod
from dray.client import Client, Clock, EventRecorder
from dray.node.cdi import Specs
from dray.node.claims import ClaimsOnNode
from dray.node.environment import VariablePlace
from dray.node.health import DeviceHealthCache
from dray.node.hostpaths import HostPaths
from dray.node.identity import machine_capacity
from dray.node.images.puller import Images
from dray.node.lifecycle import RestartDelays
from dray.node.podaddresses import own_address
from dray.node.runtime import Runtime

# Interval of refreshing volumes made from API objects. The kubelet takes up to a minute.
REFRESH_SECONDS = 30.0
USAGE_SECONDS = 10.0  # interval of measuring volumes with a size limit, as in the kubelet


@dataclass
class NodeContext:
    name: str  # the node's name
    root: Path
    address: str
    client: Client
    clock: Clock
    runtime: Runtime
    claims: ClaimsOnNode
    specs: Specs
    health: DeviceHealthCache
    recorder: EventRecorder
    delays: RestartDelays = field(default_factory=RestartDelays)
    devices: bool = True  # the gate DynamicResourceAllocation
    images: Images | None = None
    api_server: str = ""  # HOST:PORT, as containers reach it
    refresh_seconds: float = REFRESH_SECONDS
    capacity: Mapping[str, str] = field(default_factory=machine_capacity)
    usage_seconds: float = USAGE_SECONDS
    pods: Callable[[], Iterable[Pod]] = lambda: ()  # returns all pods of this node
    pod_range: simulated.Network = simulated.POD_RANGE  # addresses of pods under a runtime that executes nothing
    own_addresses: IPv4Network | None = None  # range for pods of other runtimes; None: they share the node's address

    @cached_property
    def service_env(self) -> dict[str, str]:
        """Environment variables with the API server's address for clients in containers; empty if unknown."""
        host, _, port = self.api_server.rpartition(":")
        if not host:
            return {}
        named = {"KUBERNETES_SERVICE_HOST": host.strip("[]"), "KUBERNETES_SERVICE_PORT": port}
        return named | {"KUBERNETES_SERVICE_PORT_HTTPS": port, "KUBERNETES_PORT": f"tcp://{self.api_server}"}

    @cached_property
    def host_paths(self) -> HostPaths:
        return HostPaths(self.root)

    def place_of(self, pod: Pod) -> VariablePlace:
        """Return the node name and addresses that the downward API shows to a pod.

        The pod's address is its own, or the node's if pods share that. Under a runtime that executes nothing, the
        address is simulated.
        """
        address = own_address(self.own_addresses, pod) or self.address
        if not self.runtime.executes:
            address = simulated.pod_address(self.pod_range, pod.metadata.uid)
        return VariablePlace(self.name, self.address, address, self.capacity)
