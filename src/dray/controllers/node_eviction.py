"""Evicts pods from nodes that are tainted NoExecute, at once or when their toleration has expired.

Left out: tainting nodes (`node_health`, administrators), and tainted devices (`taints`).
"""

from __future__ import annotations

from contextlib import suppress

from dray.api.errors import NotFound
from dray.api.podclaims import is_finished
from dray.api.selectors.taints import tolerates
from dray.api.times import parse_timestamp
from dray.api.types.core import Node, Pod, PodStatus, Taint, Toleration
from dray.client import Deltas, Key, change_status, key_of, with_conditions
from dray.controllers.context import ControllerContext
from dray.controllers.nodes import BY_NODE, disruption_target, node_named

WORKERS = 8
NO_EXECUTE = "NoExecute"


class NodeEviction:
    """Deletes pods that do not tolerate a NoExecute taint of their node."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._clock = context.clock
        self._controller = context.controller("taint_eviction", self._reconcile, WORKERS)
        self.run = self._controller.run
        self._nodes = context.informers.informer(Node)
        self._pods = context.informers.informer(Pod)
        self._pods.add_index(BY_NODE, node_named)
        self._nodes.add_handler(self._on_nodes)
        self._pods.add_handler(self._on_pods)

    def _on_nodes(self, deltas: Deltas[Node]) -> None:
        for old, new in deltas:
            if new is not None and evicting(new) and (old is None or evicting(old) != evicting(new)):
                for pod in self._pods.by_index(BY_NODE, new.metadata.name):
                    self._controller.queue.add(key_of(pod))

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for _, new in deltas:
            if new is not None and new.spec.nodeName:
                node = self._nodes.get("", new.spec.nodeName)
                if node is not None and node.spec.taints and evicting(node):
                    self._controller.queue.add(key_of(new))

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(*key)
        node = self._nodes.get("", pod.spec.nodeName) if pod is not None and pod.spec.nodeName else None
        if pod is None or node is None or pod.metadata.deletionTimestamp is not None or is_finished(pod):
            return None
        due = eviction_due(evicting(node), pod.spec.tolerations, self._clock.time())
        if due is None:
            return None
        left = due - self._clock.time()
        if left > 0:
            return left
        await self._evict(pod)
        return None

    async def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        self._recorder.record(pod, "TaintManagerEviction", f"Marking for deletion Pod {meta.namespace}/{meta.name}")
        with suppress(NotFound):  # the pod was already gone
            await change_status(self._client, pod, lambda pod: self._disrupted(pod.status))
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)

    def _disrupted(self, status: PodStatus) -> PodStatus:
        text = "Taint manager: deleting due to NoExecute taint"
        return with_conditions(status, disruption_target("DeletionByTaintManager", text, self._clock.time()))


def evicting(node: Node) -> tuple[Taint, ...]:
    """Return the NoExecute taints of a node."""
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)


def eviction_due(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], now: float) -> float | None:
    """Return when a pod must leave, in seconds since 1970, or None if it may stay.

    `taints` are NoExecute taints. `now` is in seconds since 1970 and is the result for a taint without a matching
    toleration.
    """
    dues = [due for taint in taints if (due := _due(taint, tolerations, now)) is not None]
    return min(dues, default=None)


def _due(taint: Taint, tolerations: tuple[Toleration, ...], now: float) -> float | None:
    """Return when a pod must leave because of one taint, in seconds since 1970, or None if it may stay.

    Without a matching toleration the pod must leave now. Otherwise the shortest time limit counts from the time when
    the taint was added; tolerations without limits let the pod stay.
    """
    covering = [toleration for toleration in tolerations if tolerates(toleration, taint)]
    if not covering:
        return now
    limits = [t.tolerationSeconds for t in covering if t.tolerationSeconds is not None]
    if not limits:
        return None
    since = parse_timestamp(taint.timeAdded) if taint.timeAdded else now
    return since + max(0, min(limits))
