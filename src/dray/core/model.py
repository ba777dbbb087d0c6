"""`ClusterModel`: a scheduler core that stores the cluster's objects itself and can undo changes.

Used where there is no API server: simulations, questions about a snapshot, tests. Left out: time and the events of a
simulation (`dray.sim`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from dray.api.gates import FeatureGates
from dray.api.types.resource import ResourceClaim
from dray.api.wire import Wire
from dray.core.configuration import SchedulerProfile
from dray.core.core import SchedulerCore
from dray.core.objects import StoredObjects

W = TypeVar("W", bound=Wire)


class ClusterModel(SchedulerCore):
    """Scheduler core that also stores the cluster's objects and can undo changes with `fork`.

    Every change records its inverse, so the cost of a fork depends on the number of changes, not on the cluster's
    size.
    """

    objects: StoredObjects

    def __init__(self, gates: FeatureGates, profiles: Mapping[str, SchedulerProfile]) -> None:
        # The model sees every change, so no pod needs to be retried merely because time has passed.
        super().__init__(_ModelObjects(), gates, profiles, lambda: self.now, fallback=True, flush_after=math.inf)

    def put(self, new: Wire) -> None:
        """Add an object, or replace the object of the same type, namespace and name, and update the scheduler state."""
        old = self.objects.put(new)
        self.apply(old, new)
        if self.state.journal.is_open:
            self.state.journal.record(partial(self._restore, old, new))

    def drop(self, obj: Wire) -> None:
        """Delete the object of this type, namespace and name. Raises KeyError if no such object exists."""
        old = self.objects.drop(obj)
        self.apply(old, None)
        if self.state.journal.is_open:
            self.state.journal.record(partial(self._restore, old, None))

    def _restore(self, old: Wire | None, new: Wire | None) -> None:
        """Undo the change of an object from `old` to `new`. Wakes no pods, because `fork` restores the whole queue."""
        if old is not None:
            self.objects.put(old)
        elif new is not None:
            self.objects.drop(new)
        self.state.change(new, old)

    @contextmanager
    def fork(self) -> Iterator[None]:
        """Context manager: undo all changes made to the model within the block when the block ends."""
        progress, start = self._progress, self.state.placement.start
        self._progress = progress.copy()
        self.queue = self._progress.queue
        try:
            with self.state.journal.open():
                yield
        finally:
            self._progress, self.state.placement.start = progress, start
            self.queue = progress.queue


class _ModelObjects(StoredObjects):
    """Stored objects of a model. Every claim counts as in use, so that no claim is deallocated for another pod."""

    def is_in_use(self, claim: ResourceClaim) -> bool:
        return True
