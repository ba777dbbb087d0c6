"""Common part of the workload controllers: owners, dependents that lead back to their owners, events, and the queue.

An owner is reconciled when the owner changes, when an object that it controls changes, and when an orphan appears
that its selector matches; but never before the informers show the controller's last writes for it (`writes`). Left
out: the reconciliation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic

from dray.api.selectors import label_selector
from dray.api.types.meta import ObjectMeta
from dray.client import Deltas, EventRecorder, Informer, Key, key_of
from dray.client.interface import T
from dray.client.workqueue import WorkQueue
from dray.controllers.context import ControllerContext
from dray.controllers.workloads.adoption import BY_CONTROLLER, controller_of, index_by_controller
from dray.controllers.workloads.writes import OwnWrites

WORKERS = 8
BY_NAMESPACE = "namespace"
# Delay between a change of a dependent and the reconciliation, for each dependent of the owner. Without it, 30,000
# pods that change one after the other would be counted for each change. Owners with few dependents do not wait.
_PAUSE_SECONDS = 20e-6
_FEW = 200

ReconcileObject = Callable[[T], Awaitable[float | None]]


class WorkloadLoop(Generic[T]):
    """Runs `reconcile` for owners of one type. Writes are made as the controller's service account."""

    def __init__(
        self, context: ControllerContext, type_: type[T], name: str, reconcile: ReconcileObject[T], *, account: str = ""
    ) -> None:
        self.client = context.client_for(account or f"{name}-controller")
        self.owners = context.informers.informer(type_)
        self.owners.add_index(BY_NAMESPACE, lambda owner: [owner.metadata.namespace])
        self.owners.add_handler(self._on_owners)
        self.writes = OwnWrites()
        self.writes.follow(type_, self.owners)
        self.recorder = EventRecorder(context.client, f"{name}-controller", clock=context.clock)
        self._context = context
        self._kind = type_.__name__
        self._reconcile = reconcile
        self._dependents: list[Informer[Any]] = []
        self._pauses: dict[Key, float] = {}  # of owners with many dependents
        self._controller = context.controller(name, self._handle, WORKERS)

    @property
    def queue(self) -> WorkQueue[Key]:
        return self._controller.queue

    def follow(self, type_: type[Any]) -> None:
        """Reconcile an owner when a dependent of this type is created, changed or deleted."""
        informer = self._context.informers.informer(type_)
        index_by_controller(informer)
        self._dependents.append(informer)
        self.writes.follow(type_, informer)
        informer.add_handler(self._on_dependents)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.recorder.run())
            group.create_task(self._controller.run())

    def _on_owners(self, deltas: Deltas[T]) -> None:
        for delta in deltas:
            self.queue.add(key_of(delta.object))

    def _on_dependents(self, deltas: Deltas[Any]) -> None:
        if not len(self.owners):
            return
        for old, new in deltas:
            for key in {*self._keys(old), *self._keys(new)}:
                self.queue.add_after(key, self._pauses.get(key, 0.0))
            if new is not None and (old is None or _attachment(old) != _attachment(new)):
                for owner in self._would_adopt(new.metadata):
                    self.queue.add(key_of(owner))

    def _keys(self, dependent: Any) -> Iterator[Key]:
        """Yield the key of the owner that controls a dependent.

        Yields nothing if `dependent` is None or its controller is unknown or of another kind.
        """
        reference = controller_of(dependent.metadata) if dependent is not None else None
        if reference is not None and reference.kind == self._kind:
            owner = self.owners.get(dependent.metadata.namespace, reference.name)
            if owner is not None and owner.metadata.uid == reference.uid:
                yield key_of(owner)

    def _would_adopt(self, meta: ObjectMeta) -> Iterator[T]:
        if controller_of(meta) is None and meta.deletionTimestamp is None:
            for owner in self.owners.by_index(BY_NAMESPACE, meta.namespace):
                spec: Any = owner.spec  # type: ignore[attr-defined]  # every kind that owns objects has a spec
                selector = getattr(spec, "selector", None)  # CronJobs have no selector and adopt nothing
                if selector is not None and label_selector(selector).matches(meta.labels):
                    yield owner

    async def _handle(self, key: Key) -> float | None:
        await self.writes.shown(key)
        owner = self.owners.get(*key)
        if owner is None:
            self._pauses.pop(key, None)
            return None
        count = sum(informer.count(BY_CONTROLLER, owner.metadata.uid) for informer in self._dependents)
        if count > _FEW:
            self._pauses[key] = count * _PAUSE_SECONDS
        else:
            self._pauses.pop(key, None)
        return await self._reconcile(owner)


def _attachment(dependent: Any) -> tuple[Any, ...]:
    """Return the facts of a dependent on which its adoption depends."""
    return dependent.metadata.labels, dependent.metadata.ownerReferences
