"""Greedy planning: repeatedly buy the node whose packing has the most value for its cost. No I/O.

Fast and always successful, so there is always a plan; the other planning methods only improve it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.autoscaling.cost_model import CostModel, NodePurchase, UnitCounts, within, without
from dray.autoscaling.packings import Packings
from dray.autoscaling.pricing import PricedPacking

_IMPORTANT = 1e4  # value of a unit relative to the next lower rank if there is not enough room for all


def greedy(model: CostModel, left: Sequence[int], rooms: Sequence[int], values: Sequence[float]) -> list[NodePurchase]:
    """Return purchases for the units in `left`, as far as groups have room.

    `left` and `values` have the units and their value for each kind, `rooms` the room in each group. Units that no
    group with room can hold remain.
    """
    bought: list[NodePurchase] = []
    counts, spare = tuple(left), [*rooms]
    offers: dict[int, PricedPacking] = {}  # best packing by group, valid while enough units are left
    while any(counts):
        best = _best(model, counts, spare, values, offers)
        if best is None:
            break
        times = min(spare[best.group], *(counts[kind] // count for kind, count in best.packing))
        best = NodePurchase(best.group, best.packing, times)
        bought.append(_cheaper(model, best, spare))
        spare[bought[-1].group] -= bought[-1].times
        counts = without(counts, best.packing, bought[-1].times)
    return bought


def first_values(model: CostModel) -> list[float]:
    """Return initial values of units: each kind's share of the cheapest node filled only with this kind.

    The value is 0 if the kind fits no node.
    """
    kinds = len(model.sizes)
    each = [
        [cost / own.most[kind] for own, cost in zip(model.packings, model.costs.nodes, strict=True) if own.most[kind]]
        for kind in range(kinds)
    ]
    return [min(found, default=0.0) for found in each]


def important_values(model: CostModel) -> list[float]:
    """Return initial values in which units of higher rank outweigh others, for when there is not enough room."""
    pairs = zip(first_values(model), model.ranks, strict=True)
    return [value * _IMPORTANT**rank for value, rank in pairs]


def share_values(model: CostModel, left: Sequence[int]) -> list[float]:
    """Return values of units based on the scarcest resource of each group.

    A unit is worth its share of that resource on the cheapest node, so no node can hold more value than it costs.
    """
    scarce = [_scarcest(own, left) for own in model.packings]
    return [
        min(
            (
                cost * (own.needs[kind][row] if own.needs[kind] else 0.0)
                for own, cost, row in zip(model.packings, model.costs.nodes, scarce, strict=True)
                if own.most[kind]
            ),
            default=0.0,
        )
        for kind in range(len(model.sizes))
    ]


def _scarcest(own: Packings, left: Sequence[int]) -> int:
    """Return the row of needs in which the units that fit the node need most in total.

    Rows are indexes; 0 if there are none.
    """
    rows = range(len(own.needs[0]) if own.needs else 0)
    able = [kind for kind, most in enumerate(own.most) if most]
    return max(rows, key=lambda row: sum(own.needs[kind][row] * left[kind] for kind in able), default=0)


def _best(
    model: CostModel, left: UnitCounts, rooms: Sequence[int], values: Sequence[float], offers: dict[int, PricedPacking]
) -> NodePurchase | None:
    """Return the purchase with the best ratio of value to cost, or None.

    Caches the best packing of each group in `offers`.
    """
    best, rate = None, 0.0
    for group, room in enumerate(rooms):
        if not room:
            continue
        if group not in offers or within(offers[group].packing, left) != offers[group].packing:
            offers[group] = model.offer(group, values, left)
        offer = offers[group]
        own = offer.value / model.cost(group, offer.packing) if offer.packing else 0.0
        if own > rate * (1 + 1e-9):
            best, rate = NodePurchase(group, offer.packing), own
    return best


def _cheaper(model: CostModel, one: NodePurchase, rooms: Sequence[int]) -> NodePurchase:
    """Return the purchase with its packing on the cheapest group that fits the packing."""
    able = [
        group
        for group, own in enumerate(model.packings)
        if rooms[group] and all(own.most[kind] >= count for kind, count in one.packing)
    ]
    able.sort(key=lambda group: model.costs.nodes[group])
    for group in able:
        if model.costs.nodes[group] >= model.cost(one.group, one.packing):
            break
        if model.packings[group].filled(one.packing) is None:
            continue
        if model.cost(group, one.packing) < model.cost(one.group, one.packing):
            return NodePurchase(group, one.packing, min(one.times, rooms[group]))
    return one
