"""How long a store takes, and how often it fails: counted by the cache, told by whoever serves metrics.

Left out: names and forms of metrics.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

from dray.store.errors import RevisionConflict, StoreError

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histograms, in seconds."""


class StoreMeasures:
    """Durations by operation, failures by operation and kind, and how long readers waited for the cache."""

    def __init__(self) -> None:
        self.durations: dict[str, list[float]] = {}
        """For each operation: how many took at most each of the bounds (and no lower one), how many longer, and the sum."""
        self.failures: dict[tuple[str, str], int] = {}
        self.lag = new_row()

    @contextmanager
    def of(self, operation: str) -> Iterator[None]:
        """Measure an operation of the log. A conflict is an answer, not a failure."""
        begun = time.perf_counter()
        try:
            yield
        except RevisionConflict:
            raise
        except StoreError as error:
            key = (operation, type(error).__name__)
            self.failures[key] = self.failures.get(key, 0) + 1
            raise
        finally:
            row = self.durations.get(operation)
            if row is None:
                row = self.durations[operation] = new_row()
            count(row, time.perf_counter() - begun)


def new_row() -> list[float]:
    return [0.0] * (len(BOUNDS) + 2)


def count(row: list[float], seconds: float) -> None:
    row[bisect_left(BOUNDS, seconds)] += 1
    row[-1] += seconds
