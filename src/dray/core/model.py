"""`ClusterModel`: a scheduler core that keeps the cluster's objects itself, and can try something and take it back.

Used where there is no API server: simulations, questions about a snapshot, tests. Left out: time and what happens in it
(`dray.sim`).
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
    """A core with its objects. Every change has an inverse, so a fork costs what it changes, however large the cluster is."""

    objects: StoredObjects

    def __init__(self, gates: FeatureGates, profiles: Mapping[str, SchedulerProfile]) -> None:
        # No change is ever missed here, so no pod is tried again by time alone.
        super().__init__(_ModelObjects(), gates, profiles, lambda: self.now, fallback=True, flush_after=math.inf)

    def put(self, new: Wire) -> None:
        """Add an object, or replace the one of the same name."""
        old = self.objects.put(new)
        self.apply(old, new)
        if self.state.journal.is_open:
            self.state.journal.record(partial(self._restore, old, new))

    def drop(self, obj: Wire) -> None:
        """Remove the object of this type and name; KeyError when there is none."""
        old = self.objects.drop(obj)
        self.apply(old, None)
        if self.state.journal.is_open:
            self.state.journal.record(partial(self._restore, old, None))

    def _restore(self, old: Wire | None, new: Wire | None) -> None:
        """Undo a change of an object. The queue is restored as a whole, so that nothing is woken here."""
        if old is not None:
            self.objects.put(old)
        elif new is not None:
            self.objects.drop(new)
        self.state.change(new, old)

    @contextmanager
    def fork(self) -> Iterator[None]:
        """Try something: at the end of the block the model is as it was before it."""
        progress, start = self._progress, self.state.placement.start
        self._progress = progress.copy()
        try:
            with self.state.journal.open():
                yield
        finally:
            self._progress, self.state.placement.start = progress, start


class _ModelObjects(StoredObjects):
    """Objects of a model in which allocations are never given up for another pod."""

    def is_in_use(self, claim: ResourceClaim) -> bool:
        return True
