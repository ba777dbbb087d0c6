"""All pods of this node: one worker for each, which is notified of changes of the pod, the runtime and the drivers.

After a restart some pods may be known only to the runtime or the checkpoint: these are ended. Left out: the work of
one worker.
"""

from __future__ import annotations

import asyncio

from dray.api import podclaims
from dray.api.types.core import Pod
from dray.client import Deltas, Informer
from dray.node.context import NodeContext
from dray.node.podworker import PodWorker


class Pods:
    """The pod workers, by the uid of their pod."""

    def __init__(self, node: NodeContext, informer: Informer[Pod]) -> None:
        self._node = node
        self._informer = informer
        self._workers: dict[str, PodWorker] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Start workers for the node's pods until cancelled. Containers keep running afterwards."""
        async with asyncio.TaskGroup() as self._group:
            remove = self._informer.add_handler(self._on_pods)
            try:
                await self._informer.synced()
                self._end_leftovers()
                await asyncio.Event().wait()
            finally:
                remove()

    def driver_changed(self) -> None:
        self._node.claims.show()
        for worker in self._workers.values():
            worker.claims_may_work()

    def driver_gone(self, name: str) -> None:
        """Notify the pods with claims of this driver that the driver has been away for long."""
        for uid, claims in self._node.claims.stranded(name).items():
            if uid in self._workers:
                self._workers[uid].driver_gone(name, claims)

    def health_changed(self) -> None:
        for worker in self._workers.values():
            worker.wake()

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
                self._gone(old.metadata.uid)
            if new is not None:
                self._update(new)

    def _update(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if uid in self._workers:
            self._workers[uid].update(pod)
        elif not self._is_over(pod):
            self._begin(uid, pod)

    def _is_over(self, pod: Pod) -> bool:
        """Whether a pod has finished, is not being deleted, and has neither claims nor containers left on this node."""
        over = podclaims.is_finished(pod) and pod.metadata.deletionTimestamp is None
        return (
            over and not self._node.claims.holds(pod.metadata.uid) and not self._node.runtime.attempts(pod.metadata.uid)
        )

    def _gone(self, uid: str) -> None:
        if uid in self._workers:
            self._workers[uid].gone()

    def _end_leftovers(self) -> None:
        for uid in {*self._node.runtime.pods(), *self._node.claims.pods()} - self._workers.keys():
            self._begin(uid, None)

    def _begin(self, uid: str, pod: Pod | None) -> None:
        assert self._group is not None
        self._workers[uid] = PodWorker(self._node, uid, pod)
        self._group.create_task(self._work(uid), name=f"pod {uid}")

    async def _work(self, uid: str) -> None:
        try:
            await self._workers[uid].run()
        finally:
            del self._workers[uid]
