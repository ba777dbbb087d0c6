"""The node's object in the API, its conditions, and the lease that shows that the node is alive.

Left out: everything that runs on the node.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from dray import KUBERNETES_VERSION
from dray.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from dray.api.simulated import BY_FAKE_RUNTIME, RUNS_NO_PODS
from dray.api.times import micro_timestamp, timestamp
from dray.api.types.coordination import Lease
from dray.api.types.core import Node, NodeStatus
from dray.api.wire import Tree
from dray.client import Client, Clock, PatchKind, change_status, with_fields
from dray.client.backoff import Backoff
from dray.node.images.manifest import architecture

log = logging.getLogger(__name__)

VERSION = f"{KUBERNETES_VERSION}+dray"
LEASES_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40  # after which the node counts as dead; renewed four times in that period, as in Kubernetes
STATUS_SECONDS = 300.0  # interval of comparing the status in the API with the node's own facts


@dataclass(frozen=True)
class NodeIdentity:
    """The facts that a node reports about itself: name, address, runtime, labels, capacity and features."""

    name: str
    address: str
    runtime: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)  # overrides the machine's own capacity
    log_port: int = 0
    features: tuple[str, ...] = ()  # declared features, which not every node has
    runs_pods: bool = True  # False: the runtime executes nothing

    def node_tree(self) -> Tree:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": architecture(),
        }
        metadata: Tree = {"name": self.name, "labels": labels | dict(self.labels)}
        if not self.runs_pods:
            metadata["annotations"] = {RUNS_NO_PODS: BY_FAKE_RUNTIME}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}}

    def status_tree(self, now: float) -> Tree:
        capacity = machine_capacity() | dict(self.capacity)
        status: Tree = {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self.name},
            ],
            "conditions": [
                _condition("Ready", "True", now, "KubeletReady", "the node agent is ready"),
                _condition("MemoryPressure", "False", now, "KubeletHasSufficientMemory", ""),
                _condition("DiskPressure", "False", now, "KubeletHasNoDiskPressure", ""),
                _condition("PIDPressure", "False", now, "KubeletHasSufficientPID", ""),
            ],
            "nodeInfo": _node_info(self.runtime),
        }
        if self.features:
            status["declaredFeatures"] = [*self.features]
        if self.log_port:
            status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self.log_port}}
        return status

    def lease_spec(self, now: float) -> Tree:
        return {
            "holderIdentity": self.name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_timestamp(now),
        }


class Heartbeat:
    """Registers the node and renews its lease and status in the API."""

    def __init__(self, client: Client, identity: NodeIdentity, clock: Clock) -> None:
        self._client = client
        self._identity = identity
        self._clock = clock

    async def register(self) -> None:
        """Create or refresh the node and its lease. Retries with a backoff until that succeeds."""
        backoff = Backoff(self._clock, initial=0.2, limit=10.0)
        while True:
            try:
                await self._register()
            except ApiError as error:
                log.warning("node %s cannot be registered yet: %s", self._identity.name, error)
                await backoff.pause()
            else:
                return

    async def run(self) -> None:
        """Renew the lease and refresh the status until cancelled. A node that was deleted is registered again."""
        told = self._clock.monotonic()
        while True:
            await self._clock.sleep(LEASE_SECONDS / 4)
            try:
                await self._renew()
                is_due = self._clock.monotonic() - told >= STATUS_SECONDS
                if is_due or not await self._counts_as_ready():
                    told = self._clock.monotonic()
                    await self._register()
            except (NotFound, Conflict):
                await self.register()
            except ApiError as error:
                log.debug("node %s: %s", self._identity.name, error)

    async def _counts_as_ready(self) -> bool:
        """Whether the Ready condition in the API is True, so that no controller has marked the node as dead.

        Returns True for a node without a Ready condition. Raises NotFound if the node does not exist.
        """
        node = await self._client.get(Node, self._identity.name)
        return all(c.status == "True" for c in node.status.conditions if c.type == "Ready")

    async def _register(self) -> None:
        tree, name = self._identity.node_tree(), self._identity.name
        try:
            await self._client.create(Node, tree)
        except AlreadyExists:
            known = tree["metadata"]
            marks = known.get("annotations", {RUNS_NO_PODS: None})  # an earlier agent may have used another runtime
            own = {"metadata": {"labels": known["labels"], "annotations": marks}}
            await self._client.patch(Node, name, own, kind=PatchKind.STRATEGIC)
        node = await self._client.get(Node, name)
        told = self._identity.status_tree(self._clock.time())
        await change_status(self._client, node, lambda node: refreshed(node.status, told))
        try:
            await self._renew()
        except NotFound:
            await self._client.create(Lease, self._lease(node), namespace=LEASES_NAMESPACE)

    async def _renew(self) -> None:
        spec = self._identity.lease_spec(self._clock.time())
        await self._client.patch(Lease, self._identity.name, {"spec": spec}, LEASES_NAMESPACE)

    def _lease(self, node: Node) -> Tree:
        """Return a lease that the node owns, so that deleting the node deletes the lease."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}
        metadata = {"name": node.metadata.name, "ownerReferences": [owner]}
        return {"metadata": metadata, "spec": self._identity.lease_spec(self._clock.time())}


def refreshed(status: NodeStatus, told: Tree) -> NodeStatus:
    """Return the status updated with the facts in `told`, or `status` itself if only heartbeat times would change.

    The lease is the heartbeat. Writing an unchanged status would cause conflicts with other updates of the node.
    Extended resources that other components added to the node are kept.
    """
    amounts = {name: _foreign(getattr(status, name)) | told[name] for name in _AMOUNTS if name in told}
    wanted = with_fields(status, told | amounts)
    return status if _without_beats(wanted) == _without_beats(status) else wanted


_AMOUNTS = ("capacity", "allocatable")


def _foreign(amounts: Mapping[str, str]) -> dict[str, str]:
    """Return the extended resources among a node's amounts: their names contain a domain."""
    return {name: amount for name, amount in amounts.items() if "/" in name}


def _without_beats(status: NodeStatus) -> NodeStatus:
    conditions = tuple(replace(condition, lastHeartbeatTime=None) for condition in status.conditions)
    return replace(status, conditions=conditions)


def machine_capacity() -> dict[str, str]:
    """Return the processors, memory and pod count of this machine, as node capacity.

    The figures serve the scheduler; the node does not limit what processes use.
    """
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cpu": str(os.cpu_count() or 1), "memory": f"{pages // 1024}Ki", "pods": "110"}


def _node_info(runtime: str) -> Tree:
    return {
        "architecture": architecture(),
        "operatingSystem": "linux",
        "kernelVersion": platform.release(),
        "kubeletVersion": VERSION,
        "containerRuntimeVersion": f"{runtime}://{VERSION}",
        "osImage": platform.platform(terse=True),
        "bootID": "",
        "machineID": "",
        "systemUUID": "",
        "kubeProxyVersion": "",
    }


def _condition(type_: str, status: str, now: float, reason: str, message: str) -> Tree:
    stamp = timestamp(now)
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": stamp,
    }
