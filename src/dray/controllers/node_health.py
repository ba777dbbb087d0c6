"""Health of nodes: a node whose lease is not renewed becomes Unknown and is tainted, and its pods become not ready.

A node is judged by when this controller saw its lease change, not by clocks of other machines; so a restarted
controller gives every node its full time. A lease says how long it lasts; a node gets a little longer than that, and
never less than Kubernetes' 50 seconds. A node that never had a lease was created by hand and is left alone. Left out:
evicting pods because of taints (`node_eviction`), and pods of deleted nodes (`nodes`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from dray.api.errors import NotFound
from dray.api.podclaims import is_finished
from dray.api.times import timestamp
from dray.api.types.coordination import Lease
from dray.api.types.core import Node, NodeCondition, NodeStatus, Pod, PodCondition, PodStatus, Taint
from dray.client import Deltas, PatchKind, change_status, with_conditions
from dray.controllers.context import ControllerContext
from dray.controllers.nodes import BY_NODE, node_named, ready_of

MONITOR_SECONDS = 5.0
GRACE_SECONDS = 50.0
LATE_RENEWALS = 1.25  # a lease that expired a quarter of its duration ago was not just renewed late
LEASES_NAMESPACE = "kube-node-lease"
UNREACHABLE, NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"
_OWN_TAINTS = (UNREACHABLE, NOT_READY)
_JUDGED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_AT_ONCE = 500  # nodes checked in one turn of the event loop, which takes a few milliseconds


class Seen(NamedTuple):
    """The last renewal time of a lease, and when this controller saw it."""

    renewed: str
    at: float


class NodeHealth:
    """Checks the health of all nodes every few seconds."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._clock = context.clock
        self._seen: dict[str, Seen] = {}
        self._nodes = context.informers.informer(Node)
        self._leases = context.informers.informer(Lease)
        self._pods = context.informers.informer(Pod)
        self._pods.add_index(BY_NODE, node_named)
        self._leases.add_handler(self._on_leases)

    async def run(self) -> None:
        while True:
            await self.judge()
            await self._clock.sleep(MONITOR_SECONDS)

    async def judge(self) -> None:
        """Check every node once and update conditions and taints.

        Nodes that were not seen yet are left out. If all nodes are silent, no pod is evicted.
        """
        nodes = [node for node in self._nodes.list() if node.metadata.name in self._seen]
        silent = set()
        for some in _batched(nodes):
            silent |= {node.metadata.name for node in some if self._is_silent(node)}
            await asyncio.sleep(0)
        # If no node answers, the network on this side is probably broken, so no pod is evicted.
        evicts = len(silent) < len(nodes)
        for some in _batched(nodes):
            for node in some:
                with suppress(NotFound):  # the node was deleted meanwhile
                    await self._settle(node, silent=node.metadata.name in silent, evicts=evicts)
            await asyncio.sleep(0)

    def _on_leases(self, deltas: Deltas[Lease]) -> None:
        now = self._clock.monotonic()
        for old, new in deltas:
            lease = new or old
            if lease is None or lease.metadata.namespace != LEASES_NAMESPACE:
                continue
            name = lease.metadata.name
            if new is None:
                self._seen.pop(name, None)
            elif name not in self._seen or self._seen[name].renewed != (new.spec.renewTime or ""):
                self._seen[name] = Seen(new.spec.renewTime or "", now)

    def _is_silent(self, node: Node) -> bool:
        seen = self._seen.get(node.metadata.name)
        if seen is None:
            return False  # its lease was deleted meanwhile
        lease = self._leases.get(LEASES_NAMESPACE, node.metadata.name)
        lasts = (lease.spec.leaseDurationSeconds or 0) if lease is not None else 0
        grace = max(GRACE_SECONDS, lasts * LATE_RENEWALS)
        return self._clock.monotonic() - seen.at > grace

    async def _settle(self, node: Node, *, silent: bool, evicts: bool) -> None:
        """Update a node's conditions and taints according to its health.

        `silent` means that the node has stopped reporting. `evicts` allows NoExecute taints.
        """
        if silent and ready_of(node) != "Unknown":
            node = await change_status(self._client, node, lambda node: self._unknown(node.status))
            self._recorder.record(node, "NodeNotReady", f"Node {node.metadata.name} status is now: NodeNotReady")
            for pod in self._pods.by_index(BY_NODE, node.metadata.name):
                await self._unready(pod)
        wanted = taints_of(ready_of(node), evicts=evicts)
        taints = with_taints(node.spec.taints, wanted, timestamp(self._clock.time()))
        if taints != node.spec.taints:
            await self._write_taints(node, taints)

    async def _write_taints(self, node: Node, taints: tuple[Taint, ...]) -> None:
        meta = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resourceVersion}
        patch = {"metadata": meta, "spec": {"taints": [msgspec.to_builtins(taint) for taint in taints] or None}}
        await self._client.patch(Node, node.metadata.name, patch, kind=PatchKind.MERGE)

    def _unknown(self, status: NodeStatus) -> NodeStatus:
        now = timestamp(self._clock.time())
        never = not any(condition.type == "Ready" for condition in status.conditions)
        reason = "NodeStatusNeverUpdated" if never else "NodeStatusUnknown"
        message = "Kubelet never posted node status." if never else "Kubelet stopped posting node status."
        beats = {condition.type: condition.lastHeartbeatTime for condition in status.conditions}
        told = [
            NodeCondition(
                type=type_,
                status="Unknown",
                reason=reason,
                message=message,
                lastHeartbeatTime=beats.get(type_),
                lastTransitionTime=now,
            )
            for type_ in _JUDGED
        ]
        return with_conditions(status, *told)

    async def _unready(self, pod: Pod) -> None:
        """Mark a pod as not ready and record an event.

        Nothing happens for a pod that has finished or is gone.
        """
        if is_finished(pod):
            return
        try:
            await change_status(self._client, pod, lambda pod: self._not_ready(pod.status))
        except NotFound:
            return
        self._recorder.warning(pod, "NodeNotReady", "Node is not ready")

    def _not_ready(self, status: PodStatus) -> PodStatus:
        if not any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions):
            return status
        told = PodCondition(type="Ready", status="False", lastTransitionTime=timestamp(self._clock.time()))
        return with_conditions(status, told)


def _batched(nodes: Sequence[Node]) -> Iterator[Sequence[Node]]:
    """Yield nodes in batches, so that other tasks can run between batches."""
    for start in range(0, len(nodes), _AT_ONCE):
        yield nodes[start : start + _AT_ONCE]


def taints_of(ready: str, *, evicts: bool) -> list[tuple[str, str]]:
    """Return key and effect of each taint that a node with this Ready status should have.

    `ready` is "True", "False" or "Unknown"; "True" needs no taint. NoExecute taints are included only with `evicts`.
    """
    key = {"Unknown": UNREACHABLE, "False": NOT_READY}.get(ready)
    if key is None:
        return []
    return [(key, "NoSchedule"), *([(key, "NoExecute")] if evicts else [])]


def with_taints(taints: Iterable[Taint], wanted: list[tuple[str, str]], now: str) -> tuple[Taint, ...]:
    """Return the node's taints with this controller's own ones set to `wanted`; taints that stay keep their time.

    `wanted` lists pairs of key and effect. `now` is the timestamp to write as timeAdded of new NoExecute taints.
    """
    kept = tuple(taint for taint in taints if taint.key not in _OWN_TAINTS or (taint.key, taint.effect) in wanted)
    there = {(taint.key, taint.effect) for taint in kept}
    added = [Taint(key=key, effect=effect) for key, effect in wanted if (key, effect) not in there]
    return (*kept, *(replace(taint, timeAdded=now) if taint.effect == "NoExecute" else taint for taint in added))
