"""History of the last hour: time series with one value per second, and earlier states of the device map.

The map is stored as backward steps: the state of each device at the beginning of a second in which it changed. Going
back from now to the requested second gives the map at that time. Steps are numbers in arrays. Their number is limited
to about 60 MB, including names of deleted claims: an hour with 40 allocations per second, or 12 minutes with 200.
Beyond that the oldest steps are dropped, and `since` says how far the history goes back. A history belongs to one
identity and is cleared when that identity loses rights.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from dray.api.wire import Tree
from dray.web.inventory import CLAIMS, STATE
from dray.web.tables import TableRow

SECONDS = 3600
MOST_CHANGES = 300_000  # of devices, 32 bytes each
MOST_GONE = 150_000  # deleted claims and devices, 300 bytes each
ABSENT = -1  # state of a device that did not exist
SERIES = ("at", "devices", "allocated", "unusable", "waiting", "pods", "allocations")


class Was(NamedTuple):
    """Earlier state of a device, or ABSENT, and the row numbers of the claims that held it."""

    state: int
    claims: tuple[int, ...]


class _Second(NamedTuple):
    """Device states before the changes of one second, as numbers in an array."""

    at: int
    steps: array[int]  # for each device: number, state, number of claims, claims
    changes: int


class DashboardHistory:
    """Time series and earlier device states of one dashboard picture, for the last hour."""

    def __init__(self, now: float | None = None) -> None:
        self.clear(time.time() if now is None else now)

    def clear(self, now: float) -> None:
        """Delete the history, because it may contain data that must no longer be read.

        `now` is Unix time in seconds; the history begins there.
        """
        self.since = now
        self._seconds: deque[_Second] = deque()
        self._open: dict[int, Was] = {}
        self._open_at = 0
        self._changes = 0
        self._names: dict[int, str] = {}  # names of deleted claims
        self._devices: dict[int, tuple[str, str]] = {}  # pool and name of deleted devices
        self._gone: deque[tuple[int, bool, int]] = deque()  # (time, whether a device, row number)
        self.series: deque[tuple[float | None, ...]] = deque(maxlen=SECONDS)

    # Recording

    def changed(self, number: int, before: TableRow | None, now: float) -> None:
        """Record the state that a device had before its first change in this second.

        `number` is the device's row number, `before` its row, or None for a new device. `now` is Unix time in
        seconds.
        """
        second = int(now)
        if second != self._open_at:
            self._close()
            self._open_at = second
        if number not in self._open:
            self._open[number] = Was(ABSENT, ()) if before is None else Was(before[STATE], before[CLAIMS])

    def claim_gone(self, number: int, name: str, now: float) -> None:
        """Record the name of a deleted claim.

        `number` is the claim's row number, `name` its namespace/name.
        """
        self._names[number] = name
        self._gone.append((int(now), False, number))

    def device_gone(self, number: int, pool: str, name: str, now: float) -> None:
        """Record pool and name of a deleted device.

        `number` is the device's row number, `pool` is DRIVER/POOL.
        """
        self._devices[number] = pool, name
        self._gone.append((int(now), True, number))

    def sample(self, values: tuple[float | None, ...]) -> None:
        """Add a point to the time series, and drop data that is too old.

        `values` are those of SERIES; the first is the Unix time in seconds.
        """
        self.series.append(values)
        self._trim(int(values[0] or 0))

    def _close(self) -> None:
        """Store the changes of the current second as an array."""
        if self._open:
            steps = array("q")
            for number, was in self._open.items():
                steps.extend((number, was.state, len(was.claims), *was.claims))
            self._seconds.append(_Second(self._open_at, steps, len(self._open)))
            self._changes += len(self._open)
            self._open = {}

    def _trim(self, now: int) -> None:
        """Drop data that is too old or exceeds the limits."""
        while self._seconds and (self._changes > MOST_CHANGES or self._seconds[0].at < now - SECONDS):
            oldest = self._seconds.popleft()
            self._changes -= oldest.changes
            self.since = max(self.since, oldest.at + 1)
        self.since = max(self.since, now - SECONDS)
        while self._gone and (self._gone[0][0] < self.since or len(self._gone) > MOST_GONE):
            at, is_device, number = self._gone.popleft()
            self.since = max(self.since, at)
            if is_device:
                self._devices.pop(number, None)
            else:
                self._names.pop(number, None)

    # Reading

    def back_to(self, at: int, found: dict[int, Was]) -> Iterator[None]:
        """Add the devices that differed at the beginning of a second to `found`. Yields between steps.

        `at` is the second as Unix time. `found` gets the earlier state by row number.
        """
        if self._open_at >= at:
            found.update(self._open)
        for second in [*self._seconds][::-1]:
            if second.at < at:
                return
            steps, place = second.steps, 0
            while place < len(steps):
                number, state, count = steps[place : place + 3]
                found[number] = Was(state, tuple(steps[place + 3 : place + 3 + count]))
                place += 3 + count
            yield

    def claim_name(self, number: int) -> str:
        """Return "namespace/name" of a deleted claim by its number, or "" if it is unknown."""
        return self._names.get(number, "")

    def device_name(self, number: int) -> tuple[str, str]:
        """Return pool and name of a deleted device, or empty strings.

        `number` is the row number that the device had.
        """
        return self._devices.get(number, ("", ""))

    def series_tree(self) -> Tree:
        """Return the time series in wire form."""
        columns: Any = zip(*self.series, strict=True) if self.series else ((),) * len(SERIES)
        until = self.series[-1][0] if self.series else self.since
        first = self.series[0][0] if self.series else self.since
        return {
            "from": max(self.since, first or 0.0),
            "until": until,
            "step": 1,
            "complete": len(self.series) == SECONDS,
            "columns": dict(zip(SERIES, columns, strict=True)),
        }
