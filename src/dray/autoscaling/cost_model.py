"""What is on offer and what is wanted: packings and costs of all groups, and how many units of each kind. Pure.

A `NodePurchase` is a node of a group with a packing; purchases are what every way of planning ends in.
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
RANKS = 3  # priorities that are told apart: the two highest, and all others


class NodePurchase(msgspec.Struct, frozen=True):
    """So many nodes of a group, each with the same packing."""

    group: int
    packing: NodePacking
    times: int = 1


class Values(msgspec.Struct, frozen=True):
    """What a unit of each kind is worth, and what room in each group costs beside its nodes (at most 0).

    They are such that no node can be filled with more than it costs, so a lower bound for any units is the sum of their
    values, and of those of the rooms.
    """

    units: tuple[float, ...]
    rooms: tuple[float, ...]

    def bound(self, left: Sequence[int], rooms: Sequence[int]) -> float:
        """What nodes for these units cost at the least."""
        pairs = zip((*self.units, *self.rooms), (*left, *rooms), strict=True)
        return max(0.0, sum(value * much for value, much in pairs))


class CostModel:
    """All groups with their costs, the wanted units, and the time that planning may take."""

    def __init__(self, packings: Sequence[Packings], costs: Costs, kinds: Sequence[PodKind], deadline: float) -> None:
        self.packings = packings
        self.costs = costs
        self.sizes = [len(kind.first.pods) for kind in kinds]
        self.ranks = ranks(kinds)
        self._deadline = deadline

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._deadline

    def unplaced(self, left: Sequence[int]) -> list[float]:
        """What it costs to leave out a unit of each kind: more than all nodes that could be bought for all of them.

        A unit of a higher rank costs more than all units of lower ranks.
        """
        most, units = max(self.costs.nodes, default=0.0) + self.costs.step, 1 + sum(left)
        pods = units * max(self.sizes, default=1)
        return [most * units * size * pods**rank for size, rank in zip(self.sizes, self.ranks, strict=True)]

    def cost(self, group: int, packing: NodePacking) -> float:
        """What a node costs with its packing: the node, and the steps down lists of alternatives."""
        return self.costs.nodes[group] + self.costs.step * self.steps(group, packing)

    def steps(self, group: int, packing: NodePacking) -> int:
        """How far down their lists of alternatives the units of a packing are served."""
        filled = self.packings[group].filled(packing)
        return filled.steps if filled is not None else 0

    def offer(self, group: int, values: Sequence[float], left: Sequence[int]) -> PricedPacking:
        """The packing of a node of the group that is worth most. Steps that cannot be avoided are taken off."""
        own = self.packings[group]
        net = [value - self.costs.step * steps for value, steps in zip(values, own.least_steps, strict=True)]
        return best_packing(own, net, left)

    def total(self, purchases: Iterable[NodePurchase]) -> float:
        return sum(self.cost(one.group, one.packing) * one.times for one in purchases)


def ranks(kinds: Sequence[PodKind]) -> list[int]:
    """How important kinds are, by the priority of their pods: 0, 1 or 2, the highest two priorities being told apart."""
    priorities = [max(pod.spec.priority or 0 for pod in kind.first.pods) for kind in kinds]
    order = sorted({*priorities})[-RANKS:]
    return [order.index(max(priority, order[0])) for priority in priorities]


def without(left: Sequence[int], packing: NodePacking, times: int = 1) -> UnitCounts:
    """The units that are left after so many nodes with a packing."""
    after = [*left]
    for kind, count in packing:
        after[kind] = max(0, after[kind] - count * times)
    return tuple(after)


def within(packing: NodePacking, left: Sequence[int]) -> NodePacking:
    """The part of a packing for which there are units."""
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
