"""Cleans up after a node that was deleted or is out of service: its pods, and the slices of its devices.

Pods of a deleted node are failed and deleted at once, because no kubelet will confirm that they stopped; so are pods
of a node that is not ready and tainted out-of-service. A node that returns within the quarantine keeps its pods,
since node agents register again after restarts. Left out: eviction because of other taints, and slices owned by the
node, which garbage collection deletes.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, NamedTuple

from msgspec.structs import replace

from dray.api.errors import NotFound
from dray.api.podclaims import is_finished
from dray.api.selectors.taints import untolerated
from dray.api.times import timestamp
from dray.api.types.core import Node, Pod, PodCondition, PodStatus, Taint
from dray.api.types.resource import ResourceSlice
from dray.client import Deltas, change_status, with_conditions
from dray.controllers.context import ControllerContext

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# As in Kubernetes: a node that is gone for this long will not return by itself.
QUARANTINE_SECONDS = 40.0
WORKERS = 8
BY_NODE = "node"


class NodeKey(NamedTuple):
    kind: Literal["absent", "tainted"]
    node: str


def node_named(obj: Pod | ResourceSlice) -> list[str]:
    """Return the node that an object is bound to, as a list of at most one name; the function of the index `BY_NODE`."""
    return [obj.spec.nodeName] if obj.spec.nodeName else []


def disruption_target(reason: str, message: str, now: float) -> PodCondition:
    """Return the condition that says why a pod is about to be deleted.

    `now` is in seconds since 1970.
    """
    return PodCondition(
        type="DisruptionTarget", status="True", reason=reason, message=message, lastTransitionTime=timestamp(now)
    )


class NodeGarbage:
    """Deletes pods and ResourceSlices of nodes that are gone or out of service."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._controller = context.controller("node_garbage", self._reconcile, WORKERS)
        self.run = self._controller.run
        self._nodes = context.informers.informer(Node)
        self._pods = context.informers.informer(Pod)
        self._slices = context.informers.informer(ResourceSlice)
        self._removed: set[str] = set()  # nodes that were seen and deleted, whose slices are stale
        self._pods.add_index(BY_NODE, node_named)
        self._slices.add_index(BY_NODE, node_named)
        self._nodes.add_handler(self._on_nodes)
        self._pods.add_handler(self._on_pods)

    def _on_nodes(self, deltas: Deltas[Node]) -> None:
        for delta in deltas:
            name = delta.object.metadata.name
            if delta.new is None:
                self._removed.add(name)
                self._controller.queue.add_after(NodeKey("absent", name), QUARANTINE_SECONDS)
            else:
                self._removed.discard(name)
                if out_of_service(delta.new) is not None:
                    self._controller.queue.add(NodeKey("tainted", name))

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            if new is None or not new.spec.nodeName:
                continue
            node = self._nodes.get("", new.spec.nodeName)
            if node is None:
                if old is None or not old.spec.nodeName:
                    self._controller.queue.add_after(NodeKey("absent", new.spec.nodeName), QUARANTINE_SECONDS)
            elif node.spec.taints and out_of_service(node) is not None:
                self._controller.queue.add(NodeKey("tainted", new.spec.nodeName))

    async def _reconcile(self, key: NodeKey) -> None:
        if key.kind == "absent":
            await self._absent(key.node)
        elif node := self._nodes.get("", key.node):
            await self._tainted(node)

    async def _absent(self, name: str) -> None:
        if self._nodes.get("", name) is not None:
            return
        try:
            await self._client.get(Node, name)
        except NotFound:
            pass
        else:
            return  # the informers' copies are behind
        for pod in self._pods.by_index(BY_NODE, name):
            await self._remove(pod, "PodGC: node no longer exists")
        if name in self._removed:
            for one in self._slices.by_index(BY_NODE, name):
                await self._delete_slice(one)
            self._removed.discard(name)

    async def _tainted(self, node: Node) -> None:
        taint = out_of_service(node)
        if taint is None or ready_of(node) == "True":
            return
        for pod in self._pods.by_index(BY_NODE, node.metadata.name):
            if pod.metadata.deletionTimestamp is not None or must_leave(pod, taint):
                await self._remove(pod, "PodGC: node is out of service")

    async def _remove(self, pod: Pod, message: str) -> None:
        """Set the pod's phase to Failed for controllers and quotas, and delete the pod without waiting for its node."""
        meta = pod.metadata
        try:
            if not is_finished(pod):
                await change_status(self._client, pod, lambda pod: self._failed(pod.status, message))
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid, grace=0)
        except NotFound:
            pass  # deleted meanwhile

    def _failed(self, status: PodStatus, message: str) -> PodStatus:
        target = disruption_target("DeletionByPodGC", message, self._clock.time())
        return replace(with_conditions(status, target), phase="Failed")

    async def _delete_slice(self, one: ResourceSlice) -> None:
        with suppress(NotFound):  # garbage collection was faster
            await self._client.delete(ResourceSlice, one.metadata.name, uid=one.metadata.uid)


def out_of_service(node: Node) -> Taint | None:
    """Return the taint by which an administrator declares that a node is down, or None.

    The effect and value of the taint do not matter.
    """
    return next((taint for taint in node.spec.taints if taint.key == OUT_OF_SERVICE), None)


def ready_of(node: Node) -> str:
    """Return the status of the node's condition Ready, or "" if the condition is missing.

    The status is "True", "False" or "Unknown".
    """
    return next((c.status for c in node.status.conditions if c.type == "Ready"), "")


def must_leave(pod: Pod, taint: Taint) -> bool:
    """Whether a pod does not tolerate the taint as NoExecute."""
    return any(untolerated((taint,), pod.spec.tolerations, ("NoExecute",)))
