"""The last hour: series by the second, and what the map was like.

The map is kept as steps back: what each device was at the beginning of a second in which it changed. Going from now to the
second in question gives the map of that time. Steps are numbers in arrays. There are at most so many that they take about
60 MB with the names of claims that are gone: enough for an hour with 40 allocations a second, or 12 minutes with 200. When
there are more, the oldest go, and `since` says how far back it goes. Left out: who may see it: a picture belongs to one
identity, and forgets when that one may read less.
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
MOST_GONE = 150_000  # claims and devices that are gone, 300 bytes each
ABSENT = -1  # the state of a device that did not exist
SERIES = ("at", "devices", "allocated", "unusable", "waiting", "pods", "allocations")


class Was(NamedTuple):
    """What a device was: its state, or ABSENT, and the numbers of the claims that held it."""

    state: int
    claims: tuple[int, ...]


class _Second(NamedTuple):
    at: int
    steps: array[int]  # number, state, how many claims, claims; for each device
    changes: int


class DashboardHistory:
    """The history of one picture."""

    def __init__(self, now: float | None = None) -> None:
        self.clear(time.time() if now is None else now)

    def clear(self, now: float) -> None:
        """Forget everything: what was read before may not be read any more."""
        self.since = now
        self._seconds: deque[_Second] = deque()
        self._open: dict[int, Was] = {}
        self._open_at = 0
        self._changes = 0
        self._names: dict[int, str] = {}  # claims that are gone
        self._devices: dict[int, tuple[str, str]] = {}  # devices that are gone: pool and name
        self._gone: deque[tuple[int, bool, int]] = deque()  # when, whether a device, number
        self.series: deque[tuple[float | None, ...]] = deque(maxlen=SECONDS)

    # What happens

    def changed(self, number: int, before: TableRow | None, now: float) -> None:
        """A device is not what it was."""
        second = int(now)
        if second != self._open_at:
            self._close()
            self._open_at = second
        if number not in self._open:
            self._open[number] = Was(ABSENT, ()) if before is None else Was(before[STATE], before[CLAIMS])

    def claim_gone(self, number: int, name: str, now: float) -> None:
        self._names[number] = name
        self._gone.append((int(now), False, number))

    def device_gone(self, number: int, pool: str, name: str, now: float) -> None:
        self._devices[number] = pool, name
        self._gone.append((int(now), True, number))

    def sample(self, values: tuple[float | None, ...]) -> None:
        """One more point of the series; also the moment to forget what is too old."""
        self.series.append(values)
        self._trim(int(values[0] or 0))

    def _close(self) -> None:
        if self._open:
            steps = array("q")
            for number, was in self._open.items():
                steps.extend((number, was.state, len(was.claims), *was.claims))
            self._seconds.append(_Second(self._open_at, steps, len(self._open)))
            self._changes += len(self._open)
            self._open = {}

    def _trim(self, now: int) -> None:
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

    # What was

    def back_to(self, at: int, found: dict[int, Was]) -> Iterator[None]:
        """Put the devices that were different at the beginning of a second into a dict, piece by piece."""
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
        return self._names.get(number, "")

    def device_name(self, number: int) -> tuple[str, str]:
        """Pool and name of a device that is gone."""
        return self._devices.get(number, ("", ""))

    def series_tree(self) -> Tree:
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
