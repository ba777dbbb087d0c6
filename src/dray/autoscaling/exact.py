"""Exact search for the cheapest purchases, by branch and bound over nodes and their packings. No I/O.

Each step takes the kind that is hardest to place and tries every packing with this kind on a node of each group, or
leaves out one unit, at a penalty that exceeds the cost of all nodes. A branch ends when its cost plus the values of
the remaining units (`cost_model.Values`) reaches the cost of the best plan so far. A completed search proves its plan
to be cheapest; a search that runs out of time reports that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from dray.autoscaling.cost_model import CostModel, NodePurchase, UnitCounts, Values, without
from dray.autoscaling.packings import NodePacking, Packings

_EFFORT = 200_000  # limit of branches


class Cheapest(msgspec.Struct, frozen=True):
    """Cheapest purchases found, and whether they are proved to be the cheapest."""

    purchases: tuple[NodePurchase, ...]
    proven: bool


def cheapest(
    model: CostModel,
    left: Sequence[int],
    rooms: Sequence[int],
    values: Values,
    known: Sequence[NodePurchase],
    cost: float,
) -> Cheapest:
    """Search for purchases cheaper than the known ones, whose cost is `cost`. Returns the cheapest found."""
    return _ExactSearch(model, left, values, known, cost).run(tuple(left), tuple(rooms))


class _ExactSearch:
    """State of one branch-and-bound search."""

    def __init__(
        self, model: CostModel, left: Sequence[int], values: Values, known: Sequence[NodePurchase], cost: float
    ) -> None:
        self._model = model
        self._values = values
        self._unplaced = model.unplaced(left)
        self._best, self._cost = tuple(known), cost
        self._order = sorted(range(len(left)), key=lambda kind: (-values.units[kind], kind))
        self._seen: dict[tuple[UnitCounts, UnitCounts], float] = {}
        self._bought: list[NodePurchase] = []
        self._packings: dict[tuple[int, int, UnitCounts], list[tuple[float, NodePacking]]] = {}
        self._effort = 0
        self._tolerance = model.costs.tie * 1e-2

    def run(self, left: UnitCounts, rooms: UnitCounts) -> Cheapest:
        """Run the search. Returns the best purchases, and whether the search was completed."""
        self._branch(left, rooms, 0.0)
        return Cheapest(self._best, proven=not self._is_over)

    @property
    def _is_over(self) -> bool:
        return self._effort > _EFFORT or self._model.is_over

    def _branch(self, left: UnitCounts, rooms: UnitCounts, spent: float) -> None:
        """Explore all ways to serve the units in `left`, given the cost spent so far."""
        self._effort += 1
        if self._is_over or spent + self._values.bound(left, rooms) >= self._cost - self._tolerance:
            return
        if self._seen.get((left, rooms), float("inf")) <= spent:
            return
        self._seen[left, rooms] = spent
        kind = next((one for one in self._order if left[one]), None)
        if kind is None:
            self._best, self._cost = tuple(self._bought), spent
            return
        for group, cost, packing in self._ways(kind, left, rooms):
            self._bought.append(NodePurchase(group, packing))
            after = (*rooms[:group], rooms[group] - 1, *rooms[group + 1 :])
            self._branch(without(left, packing), after, spent + cost)
            self._bought.pop()
        self._branch(without(left, ((kind, 1),)), rooms, spent + self._unplaced[kind])

    def _ways(self, kind: int, left: UnitCounts, rooms: UnitCounts) -> list[tuple[int, float, NodePacking]]:
        """Return the nodes that serve a unit of the kind, as group, cost and packing.

        Nodes with the smallest cost beyond their value come first.
        """
        found = []
        for group, room in enumerate(rooms):
            if room and self._model.packings[group].most[kind]:
                for excess, packing in self._packings_with(group, kind, left):
                    found.append((excess, group, packing))
        found.sort(key=lambda one: one[0])
        return [(group, self._model.cost(group, packing), packing) for _, group, packing in found]

    def _packings_with(self, group: int, kind: int, left: UnitCounts) -> list[tuple[float, NodePacking]]:
        """Return the possible packings that contain the kind, each with its cost beyond the value of its units.

        Cached.
        """
        own = self._model.packings[group]
        capped = tuple(min(there, most) for there, most in zip(left, own.most, strict=True))
        key = group, kind, capped
        if key not in self._packings:
            every = [*_packings(own, kind, capped)]
            if not own.has_choices:
                every = _largest(every)
            self._packings[key] = [(self._excess(group, packing), packing) for packing in every]
        return self._packings[key]

    def _excess(self, group: int, packing: NodePacking) -> float:
        """Return how much a node costs beyond the value of its packing.

        `group` is an index.
        """
        worth = sum(self._values.units[kind] * count for kind, count in packing)
        return self._model.cost(group, packing) - worth


def _packings(own: Packings, kind: int, capped: UnitCounts) -> Iterator[NodePacking]:
    """Yield every possible packing that contains the kind.

    `kind` is an index, and `capped` has the most units of each kind.
    """
    others = [other for other, count in enumerate(capped) if count and other != kind]
    for count in range(1, capped[kind] + 1):
        for packing in _extended(own, {kind: count}, others, capped):
            if own.filled(packing) is not None:
                yield packing


def _extended(own: Packings, begun: dict[int, int], others: Sequence[int], capped: UnitCounts) -> Iterator[NodePacking]:
    """Yield the packing begun, and all extensions with other kinds that plausibly fit."""
    packing = tuple(sorted(begun.items()))
    if not own.is_plausible(packing):
        return
    yield packing
    for at, other in enumerate(others):
        for count in range(1, capped[other] + 1):
            yield from _extended(own, {**begun, other: count}, others[at + 1 :], capped)


def _largest(packings: Sequence[NodePacking]) -> list[NodePacking]:
    """Return the packings that are not part of another packing. Without choices, a larger packing is never worse."""
    tables = [dict(one) for one in packings]
    return [
        one
        for one, mine in zip(packings, tables, strict=True)
        if not any(mine is not other and _is_part(mine, other) for other in tables)
    ]


def _is_part(one: dict[int, int], other: dict[int, int]) -> bool:
    return all(other.get(kind, 0) >= count for kind, count in one.items())
