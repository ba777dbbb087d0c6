"""Nodes one after the other, each time the one whose filling is worth most for what it costs. Pure.

Fast and never stuck, so there is always an answer; the other ways of planning only make it better.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.autoscaling.fillings import Fillings
from dray.autoscaling.market import Counts, Market, Purchase, within, without
from dray.autoscaling.pricing import PricedFilling

_IMPORTANT = 1e4  # times as much as a unit of the next lower rank is worth where there is not room for all


def greedy(market: Market, left: Sequence[int], rooms: Sequence[int], values: Sequence[float]) -> list[Purchase]:
    """Purchases for the units that are left, as far as there is room."""
    bought: list[Purchase] = []
    counts, spare = tuple(left), [*rooms]
    offers: dict[int, PricedFilling] = {}  # of each group; good for as long as there are units for it
    while any(counts):
        best = _best(market, counts, spare, values, offers)
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


def important_values(market: Market) -> list[float]:
    """The first values, with important units worth more than any number of others: for when there is not room for all."""
    pairs = zip(first_values(market), market.ranks, strict=True)
    return [value * _IMPORTANT**rank for value, rank in pairs]


def share_values(market: Market, left: Sequence[int]) -> list[float]:
    """What a unit of each kind is worth by the one thing that a node of each group runs out of first.

    A unit is worth its share of that thing on the node where this is cheapest, so no node can hold more than it costs.
    """
    scarce = [_scarcest(own, left) for own in market.fillings]
    return [
        min(
            (
                cost * (own.needs[kind][row] if own.needs[kind] else 0.0)
                for own, cost, row in zip(market.fillings, market.costs.nodes, scarce, strict=True)
                if own.most[kind]
            ),
            default=0.0,
        )
        for kind in range(len(market.sizes))
    ]


def _scarcest(own: Fillings, left: Sequence[int]) -> int:
    """The row of needs of which the units that a node could take need most, all together."""
    rows = range(len(own.needs[0]) if own.needs else 0)
    able = [kind for kind, most in enumerate(own.most) if most]
    return max(rows, key=lambda row: sum(own.needs[kind][row] * left[kind] for kind in able), default=0)


def _best(
    market: Market, left: Counts, rooms: Sequence[int], values: Sequence[float], offers: dict[int, PricedFilling]
) -> Purchase | None:
    best, rate = None, 0.0
    for group, room in enumerate(rooms):
        if not room:
            continue
        if group not in offers or within(offers[group].filling, left) != offers[group].filling:
            offers[group] = market.offer(group, values, left)
        offer = offers[group]
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
