"""Model of offers and demand: packings and costs of all groups, and the number of units of each kind. No I/O.

A `NodePurchase` is a number of nodes of a group with a packing; every planning method returns purchases.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from dray.autoscaling.demand import PodKind
from dray.autoscaling.expanders import Costs
from dray.autoscaling.packings import NodePacking, Packings
from dray.autoscaling.pricing import PricedPacking, best_packing

UnitCounts = tuple[int, ...]
RANKS = 3  # number of ranks: the two highest priorities, and all others


class NodePurchase(msgspec.Struct, frozen=True):
    """A number of nodes of one group, each with the same packing."""

    group: int
    packing: NodePacking
    times: int = 1


class Values(msgspec.Struct, frozen=True):
    """Value of a unit of each kind, and value of room in each group (at most 0).

    No node can be filled with more value than it costs, so the sum of values of units and rooms is a lower bound on
    the cost.
    """

    units: tuple[float, ...]
    rooms: tuple[float, ...]

    def bound(self, left: Sequence[int], rooms: Sequence[int]) -> float:
        """Return a lower bound on the cost of nodes for the units in `left`.

        `left` has the number of units of each kind, `rooms` the room in each group. Never negative.
        """
        pairs = zip((*self.units, *self.rooms), (*left, *rooms), strict=True)
        return max(0.0, sum(value * much for value, much in pairs))


class CostModel:
    """Costs and packings of all groups, sizes and ranks of kinds, and the deadline of planning."""

    def __init__(self, packings: Sequence[Packings], costs: Costs, kinds: Sequence[PodKind], deadline: float) -> None:
        self.packings = packings
        self.costs = costs
        self.sizes = [len(kind.first.pods) for kind in kinds]
        self.ranks = ranks(kinds)
        self._deadline = deadline

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self._deadline

    def unplaced(self, left: Sequence[int]) -> list[float]:
        """Return for each kind the penalty for leaving out a unit, which exceeds the cost of all possible nodes.

        The penalty for a unit of a higher rank exceeds that of all units of lower ranks.
        """
        most, units = max(self.costs.nodes, default=0.0) + self.costs.step, 1 + sum(left)
        pods = units * max(self.sizes, default=1)
        return [most * units * size * pods**rank for size, rank in zip(self.sizes, self.ranks, strict=True)]

    def cost(self, group: int, packing: NodePacking) -> float:
        """Return the cost of a node with its packing, including fallback steps to lower-ranked alternatives.

        `group` is an index.
        """
        return self.costs.nodes[group] + self.costs.step * self.steps(group, packing)

    def steps(self, group: int, packing: NodePacking) -> int:
        """Return the number of fallback steps to lower-ranked alternatives in a packing.

        0 if the packing cannot be filled.
        """
        filled = self.packings[group].filled(packing)
        return filled.steps if filled is not None else 0

    def offer(self, group: int, values: Sequence[float], left: Sequence[int]) -> PricedPacking:
        """Return the most valuable packing of a node of the group, less the cost of unavoidable fallback steps."""
        own = self.packings[group]
        net = [value - self.costs.step * steps for value, steps in zip(values, own.least_steps, strict=True)]
        return best_packing(own, net, left)

    def total(self, purchases: Iterable[NodePurchase]) -> float:
        return sum(self.cost(one.group, one.packing) * one.times for one in purchases)


def ranks(kinds: Sequence[PodKind]) -> list[int]:
    """Return the rank of each kind by its pods' priority: the two highest priorities are distinct, others are 0."""
    priorities = [max(pod.spec.priority or 0 for pod in kind.first.pods) for kind in kinds]
    order = sorted({*priorities})[-RANKS:]
    return [order.index(max(priority, order[0])) for priority in priorities]


def without(left: Sequence[int], packing: NodePacking, times: int = 1) -> UnitCounts:
    """Return the units left after buying nodes with a packing."""
    after = [*left]
    for kind, count in packing:
        after[kind] = max(0, after[kind] - count * times)
    return tuple(after)


def within(packing: NodePacking, left: Sequence[int]) -> NodePacking:
    """Return the part of a packing for which units are left."""
    return tuple((kind, min(count, left[kind])) for kind, count in packing if left[kind])


def left_after(left: Sequence[int], purchases: Iterable[NodePurchase]) -> UnitCounts:
    counts = tuple(left)
    for one in purchases:
        counts = without(counts, one.packing, one.times)
    return counts


def rooms_after(rooms: Sequence[int], purchases: Iterable[NodePurchase]) -> UnitCounts:
    after = [*rooms]
    for one in purchases:
        after[one.group] -= one.times
    return tuple(after)
