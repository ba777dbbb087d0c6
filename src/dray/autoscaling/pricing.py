"""The packing of a node that is worth most, when each unit has a value: a knapsack with several limits. Pure.

Branch and bound over kinds, the most valuable for what they take first. What fits together is decided by the scheduler's
code (`packings`), but only where a packing would be better than the best so far. The bound holds even where the search
is cut short, and so do the lower bounds that are made of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dray.autoscaling.packings import NodePacking, Packings

_EFFORT = 4_000  # steps of one search; then its bound is that of the fractional problem
_TINY = 1e-12


class PricedPacking(msgspec.Struct, frozen=True):
    """The best packing that was found with its value, and what no packing can be worth more than."""

    packing: NodePacking
    value: float
    bound: float


def best_packing(packings: Packings, values: Sequence[float], left: Sequence[int]) -> PricedPacking:
    """The packing of a node that is worth most, out of the units that are left."""
    return _PackingSearch(packings, values, left).offer()


class _PackingSearch:
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
        rows = len(self._needs[0]) if self._needs else 0
        room = [1.0] * rows
        everything = self._bound(0, room)
        self._extend(0, 0.0, room)
        packing, value = self._best
        return PricedPacking(packing, value, everything if self._effort > _EFFORT else max(value, self._refused))

    def _suffix_rates(self) -> list[list[float]]:
        """For each position and row, the most value that a whole row can bring from there on."""
        rates: list[list[float]] = [[0.0] * len(self._needs[0])] if self._needs else [[]]
        for kind, needs in zip(reversed(self._kinds), reversed(self._needs), strict=True):
            value = self._values[kind]
            own = [value / need if need > _TINY else float("inf") for need in needs]
            rates.append([max(pair) for pair in zip(own, rates[-1], strict=True)])
        return rates[::-1]

    def _suffix_values(self) -> list[float]:
        rest = [0.0]
        for kind, most in zip(reversed(self._kinds), reversed(self._most), strict=True):
            rest.append(rest[-1] + self._values[kind] * most)
        return rest[::-1]

    def _bound(self, at: int, room: Sequence[float]) -> float:
        """What the kinds from a position on can be worth at most in the room that is left."""
        bounds = [free * rate for free, rate in zip(room, self._rates[at], strict=True) if rate != float("inf")]
        return min(self._rest[at], *bounds) if bounds else self._rest[at]

    def _extend(self, at: int, value: float, room: list[float]) -> None:
        """Try what is chosen so far with every choice of the kinds from a position on, and last by itself."""
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
        """What a packing must be worth more than."""
        return self._best[1] * (1 + 1e-9) + _TINY

    def _try(self, value: float) -> None:
        packing = tuple(sorted(self._chosen))
        if self._packings.filled(packing) is not None:
            self._best = packing, value
        else:
            self._refused = max(self._refused, value)
