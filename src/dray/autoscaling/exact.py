"""The cheapest purchases of all, by branch and bound over nodes and their packings. Pure.

Each step serves the kind that is hardest to place, on a node of some group with every packing that contains it, or leaves
a unit of it out, which costs more than all nodes together. A branch ends where its cost and the values of what is left
(`model.Values`) come to as much as the best plan so far. A search that comes to its end proves that its plan is the
cheapest one; a search that runs out of time says that it did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from dray.autoscaling.cost_model import CostModel, NodePurchase, UnitCounts, Values, without
from dray.autoscaling.packings import NodePacking, Packings

_EFFORT = 200_000  # branches


class Cheapest(msgspec.Struct, frozen=True):
    """The best purchases that were found, and whether there can be no cheaper ones."""

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
    """The cheapest purchases, at most as dear as those that are known, which come to `cost`."""
    return _ExactSearch(model, left, values, known, cost).run(tuple(left), tuple(rooms))


class _ExactSearch:
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
        self._branch(left, rooms, 0.0)
        return Cheapest(self._best, proven=not self._is_over)

    @property
    def _is_over(self) -> bool:
        return self._effort > _EFFORT or self._model.is_over

    def _branch(self, left: UnitCounts, rooms: UnitCounts, spent: float) -> None:
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
        """The nodes that take a unit of the kind, those that cost least beyond the value of their packing first."""
        found = []
        for group, room in enumerate(rooms):
            if room and self._model.packings[group].most[kind]:
                for excess, packing in self._packings_with(group, kind, left):
                    found.append((excess, group, packing))
        found.sort(key=lambda one: one[0])
        return [(group, self._model.cost(group, packing), packing) for _, group, packing in found]

    def _packings_with(self, group: int, kind: int, left: UnitCounts) -> list[tuple[float, NodePacking]]:
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
        worth = sum(self._values.units[kind] * count for kind, count in packing)
        return self._model.cost(group, packing) - worth


def _packings(own: Packings, kind: int, capped: UnitCounts) -> Iterator[NodePacking]:
    """Every packing that has the kind in it."""
    others = [other for other, count in enumerate(capped) if count and other != kind]
    for count in range(1, capped[kind] + 1):
        for packing in _extended(own, {kind: count}, others, capped):
            if own.filled(packing) is not None:
                yield packing


def _extended(own: Packings, begun: dict[int, int], others: Sequence[int], capped: UnitCounts) -> Iterator[NodePacking]:
    """What is begun, and with it every number of others that a node has enough of everything for."""
    packing = tuple(sorted(begun.items()))
    if not own.is_plausible(packing):
        return
    yield packing
    for at, other in enumerate(others):
        for count in range(1, capped[other] + 1):
            yield from _extended(own, {**begun, other: count}, others[at + 1 :], capped)


def _largest(packings: Sequence[NodePacking]) -> list[NodePacking]:
    """Those that are not part of another: where nothing but nodes costs, a larger one is never worse."""
    tables = [dict(one) for one in packings]
    return [
        one
        for one, mine in zip(packings, tables, strict=True)
        if not any(mine is not other and _is_part(mine, other) for other in tables)
    ]


def _is_part(one: dict[int, int], other: dict[int, int]) -> bool:
    return all(other.get(kind, 0) >= count for kind, count in one.items())
