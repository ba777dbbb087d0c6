"""ReplicaSets and ReplicationControllers: keeps the wanted number of pods of one template.

Reads informers' copies, creates and deletes pods, writes the status; `replicas` and `pods` decide how many and which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from dray.api.selectors import label_selector
from dray.api.types.apps import ReplicaSet
from dray.api.types.core import Pod, ReplicationController
from dray.background.thread import in_thread_if_large
from dray.controllers.context import ControllerContext
from dray.controllers.workloads.adoption import BY_CONTROLLER, Adoption, controlled, controller_of, index_by_controller
from dray.controllers.workloads.loop import WorkloadLoop
from dray.controllers.workloads.podcontrol import PodControl, PodWrites, namespace_ends
from dray.controllers.workloads.pods import deletion_order, is_active, is_deleting, next_available, pod_tree
from dray.controllers.workloads.replicas import missing, status_of
from dray.controllers.workloads.status import write_status

O = TypeVar("O", bound=ReplicaSet | ReplicationController)  # noqa: E741  (an owner of pods)


class _Replicator(Generic[O]):
    def __init__(self, context: ControllerContext, type_: type[O], name: str, account: str = "") -> None:
        self._clock = context.clock
        self._type = type_
        self._loop = WorkloadLoop(context, type_, name, self._reconcile, account=account)
        self.run = self._loop.run
        self._client = self._loop.client
        self._loop.follow(Pod)
        self._pods = context.informers.informer(Pod)
        self._sets = self._loop.owners
        index_by_controller(self._sets)
        self._adoption = Adoption(self._client, Pod, self._pods, self._loop.writes, adoptable=is_active)
        self._control = PodControl(self._client, self._loop.recorder, self._loop.writes)

    async def _reconcile(self, replica_set: O) -> float | None:
        pods = await self._adoption.claim(replica_set, label_selector(replica_set.spec.selector))
        active = await in_thread_if_large(len(pods), _active, pods)
        outcome = PodWrites(0) if is_deleting(replica_set) else await self._scale(replica_set, active)
        error = None if namespace_ends(outcome.error) else outcome.error
        now = self._clock.time()
        status = await in_thread_if_large(len(pods), status_of, replica_set, pods, error, now)
        await write_status(self._client, self._loop.writes, replica_set, status)
        if error is not None:
            raise error
        return await in_thread_if_large(len(active), next_available, active, replica_set.spec.minReadySeconds, now)

    async def _scale(self, replica_set: O, active: Sequence[Pod]) -> PodWrites:
        change = missing(replica_set, active)
        if change > 0:
            template = replica_set.spec.template
            return await self._control.create(replica_set, range(change), lambda _: pod_tree(replica_set, template))
        if change < 0:
            related, now = await self._related(replica_set), self._clock.time()
            order = await in_thread_if_large(len(related), deletion_order, active, related, now)
            return await self._control.delete(replica_set, order[:-change])
        return PodWrites(0)

    async def _related(self, replica_set: O) -> list[Pod]:
        """Return the active pods of all sets of the same owner.

        A set without owner is on its own.
        """
        owner = controller_of(replica_set.metadata)
        sets = [replica_set] if owner is None else self._sets.by_index(BY_CONTROLLER, owner.uid)
        pods = [pod for one in sets for pod in controlled(self._pods, one)]
        return await in_thread_if_large(len(pods), _active, pods)


def _active(pods: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in pods if is_active(pod)]


class ReplicaSetController(_Replicator[ReplicaSet]):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, ReplicaSet, "replicaset")


class ReplicationManager(_Replicator[ReplicationController]):
    """Controller of ReplicationControllers, under its Kubernetes name."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, ReplicationController, "replicationcontroller", account="replication-controller")
