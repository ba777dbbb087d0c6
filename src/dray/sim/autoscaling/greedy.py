"""Nodes one after the other, each time the one whose filling is worth most for what it costs. Pure.

Fast and never stuck, so there is always an answer; the other ways of planning only make it better.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.sim.autoscaling.market import Counts, Market, Purchase, without


def greedy(market: Market, left: Sequence[int], rooms: Sequence[int], values: Sequence[float]) -> list[Purchase]:
    """Purchases for the units that are left, as far as there is room."""
    bought: list[Purchase] = []
    counts, spare = tuple(left), [*rooms]
    while any(counts):
        best = _best(market, counts, spare, values)
        if best is None:
            break
        times = min(spare[best.group], *(counts[kind] // count for kind, count in best.filling))
        best = Purchase(best.group, best.filling, times)
        bought.append(_cheaper(market, best, spare))
        spare[bought[-1].group] -= bought[-1].times
        counts = without(counts, best.filling, bought[-1].times)
    return bought


def first_values(market: Market) -> list[float]:
    """What a unit of each kind is worth at first: its part of the cheapest node that is full of its kind."""
    kinds = len(market.sizes)
    each = [
        [cost / own.most[kind] for own, cost in zip(market.fillings, market.costs.nodes, strict=True) if own.most[kind]]
        for kind in range(kinds)
    ]
    return [min(found, default=0.0) for found in each]


def _best(market: Market, left: Counts, rooms: Sequence[int], values: Sequence[float]) -> Purchase | None:
    best, rate = None, 0.0
    for group, room in enumerate(rooms):
        if not room:
            continue
        offer = market.offer(group, values, left)
        own = offer.value / market.cost(group, offer.filling) if offer.filling else 0.0
        if own > rate * (1 + 1e-9):
            best, rate = Purchase(group, offer.filling), own
    return best


def _cheaper(market: Market, one: Purchase, rooms: Sequence[int]) -> Purchase:
    """The same filling on nodes of the cheapest group that takes it."""
    able = [
        group
        for group, own in enumerate(market.fillings)
        if rooms[group] and all(own.most[kind] >= count for kind, count in one.filling)
    ]
    able.sort(key=lambda group: market.costs.nodes[group])
    for group in able:
        if market.costs.nodes[group] >= market.cost(one.group, one.filling):
            break
        if market.fillings[group].filled(one.filling) is None:
            continue
        if market.cost(group, one.filling) < market.cost(one.group, one.filling):
            return Purchase(group, one.filling, min(one.times, rooms[group]))
    return one
