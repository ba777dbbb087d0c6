"""Most valuable packing of a node, given a value for each unit: a knapsack problem with several limits. No I/O.

Branch and bound over kinds, most value per need first. The scheduler's code decides what fits together (`packings`),
but is only asked if a packing would be better than the best so far. The bound is valid even if the search is cut
short, and so are lower bounds derived from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dray.autoscaling.packings import NodePacking, Packings

_EFFORT = 4_000  # limit of steps per search; beyond, the bound is that of the fractional problem
_TINY = 1e-12


class PricedPacking(msgspec.Struct, frozen=True):
    """Best packing found with its value, and an upper bound on the value of any packing."""

    packing: NodePacking
    value: float
    bound: float


def best_packing(packings: Packings, values: Sequence[float], left: Sequence[int]) -> PricedPacking:
    """Return the most valuable packing of a node out of the units in `left`."""
    return _PackingSearch(packings, values, left).offer()


class _PackingSearch:
    """State of one search for the most valuable packing."""

    def __init__(self, packings: Packings, values: Sequence[float], left: Sequence[int]) -> None:
        self._packings = packings
        self._values = values
        worth = [kind for kind, value in enumerate(values) if value > _TINY and left[kind] and packings.most[kind]]
        self._kinds = sorted(worth, key=lambda kind: (-values[kind] / max(packings.largest_need(kind), _TINY), kind))
        self._most = [min(left[kind], packings.most[kind]) for kind in self._kinds]
        self._needs = [packings.needs[kind] for kind in self._kinds]
        self._rates = self._suffix_rates()
        self._rest = self._suffix_values()
        self._chosen: list[tuple[int, int]] = []
        self._best: tuple[NodePacking, float] = ((), 0.0)
        self._refused = 0.0
        self._effort = 0

    def offer(self) -> PricedPacking:
        """Run the search. Returns the best packing with value and bound."""
        rows = len(self._needs[0]) if self._needs else 0
        room = [1.0] * rows
        everything = self._bound(0, room)
        self._extend(0, 0.0, room)
        packing, value = self._best
        return PricedPacking(packing, value, everything if self._effort > _EFFORT else max(value, self._refused))

    def _suffix_rates(self) -> list[list[float]]:
        """Return for each position and row the highest value per full row of the kinds from that position on."""
        rates: list[list[float]] = [[0.0] * len(self._needs[0])] if self._needs else [[]]
        for kind, needs in zip(reversed(self._kinds), reversed(self._needs), strict=True):
            value = self._values[kind]
            own = [value / need if need > _TINY else float("inf") for need in needs]
            rates.append([max(pair) for pair in zip(own, rates[-1], strict=True)])
        return rates[::-1]

    def _suffix_values(self) -> list[float]:
        """Return for each position the total value of all units from that position on."""
        rest = [0.0]
        for kind, most in zip(reversed(self._kinds), reversed(self._most), strict=True):
            rest.append(rest[-1] + self._values[kind] * most)
        return rest[::-1]

    def _bound(self, at: int, room: Sequence[float]) -> float:
        """Return an upper bound on the value of the kinds from a position on in the remaining room.

        `at` is the position in the order of kinds, `room` the free share of each row.
        """
        bounds = [free * rate for free, rate in zip(room, self._rates[at], strict=True) if rate != float("inf")]
        return min(self._rest[at], *bounds) if bounds else self._rest[at]

    def _extend(self, at: int, value: float, room: list[float]) -> None:
        """Try all extensions of the chosen packing with kinds from a position on, and finally the packing itself."""
        for place in range(at, len(self._kinds)):
            self._effort += 1
            if self._effort > _EFFORT or value + self._bound(place, room) <= self._enough():
                break
            needs, own = self._needs[place], self._values[self._kinds[place]]
            limits = [int((free + 1e-9) / need) for free, need in zip(room, needs, strict=True) if need > _TINY]
            for count in range(min([self._most[place], *limits]), 0, -1):
                left = [free - need * count for free, need in zip(room, needs, strict=True)]
                self._chosen.append((self._kinds[place], count))
                self._extend(place + 1, value + own * count, left)
                self._chosen.pop()
        if value > self._enough():
            self._try(value)

    def _enough(self) -> float:
        """Return the value that a packing must exceed."""
        return self._best[1] * (1 + 1e-9) + _TINY

    def _try(self, value: float) -> None:
        """Accept the chosen packing as the best if it fits."""
        packing = tuple(sorted(self._chosen))
        if self._packings.filled(packing) is not None:
            self._best = packing, value
        else:
            self._refused = max(self._refused, value)
