"""Durations and failures of store operations, recorded by the cache and exported as metrics elsewhere."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from dray.store.errors import RevisionConflict, StoreError

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram buckets in seconds."""


class StoreMeasures:
    """Durations and failures per operation, and how long readers waited for the cache (`lag`)."""

    def __init__(self) -> None:
        self.durations: defaultdict[str, list[float]] = defaultdict(new_row)
        """Operation → number of calls in each bucket of BOUNDS, number of longer calls, and total duration."""
        self.failures: dict[tuple[str, str], int] = {}
        self.lag = new_row()

    @contextmanager
    def of(self, operation: str) -> Iterator[None]:
        """Measure an operation of the log in the context; `took` costs less where an operation is frequent."""
        begun, failure = time.perf_counter(), None
        try:
            yield
        except StoreError as error:
            failure = error
            raise
        finally:
            self.took(operation, time.perf_counter() - begun, failure)

    def took(self, operation: str, seconds: float, error: StoreError | None = None) -> None:
        """Count an operation of the log, and its failure. A RevisionConflict does not count as a failure."""
        count(self.durations[operation], seconds)
        if error is not None and not isinstance(error, RevisionConflict):
            key = (operation, type(error).__name__)
            self.failures[key] = self.failures.get(key, 0) + 1


def new_row() -> list[float]:
    """Return an empty histogram: a counter per bucket, one for longer durations, and the sum."""
    return [0.0] * (len(BOUNDS) + 2)


def count(row: list[float], seconds: float) -> None:
    """Add a duration in seconds to a histogram made by `new_row`."""
    row[bisect_left(BOUNDS, seconds)] += 1
    row[-1] += seconds
