"""A lower bound for the cost of any plan, and packings that come close to it: a linear program over all packings.

Packings come in one by one, each the most valuable of its group at the present values of units. After every round the
values, made smaller until no node of any group could be filled with more than it costs, give a bound that holds whatever
the packings are; so the computation may stop at any time. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dray.autoscaling.cost_model import CostModel, NodePurchase, Values
from dray.autoscaling.greedy import first_values, share_values
from dray.autoscaling.simplex import Master

_GAIN = 1e-7  # of a node's cost: a packing that is worth less than this above it changes nothing
KINDS = 150  # a program of more rows takes too long; the bound is that of plain values then


class Relaxed(msgspec.Struct, frozen=True):
    """The best bound, the values behind it, what units are worth in the end, and how often to buy which packing."""

    bound: float
    values: Values
    worth: tuple[float, ...]
    amounts: tuple[tuple[NodePurchase, float], ...] = ()


def relax(
    model: CostModel, left: Sequence[int], wanted: Sequence[int], rooms: Sequence[int], known: Iterable[NodePurchase]
) -> Relaxed:
    """Solve the linear program, beginning with the packings of purchases that are known.

    The values hold for any plan out of the units that are `wanted`, not only for those that are `left` to buy for.
    """
    starts = first_values(model), share_values(model, left)
    best = max((_simple(model, left, wanted, rooms, start) for start in starts), key=lambda one: one.bound)
    if len(left) > KINDS:
        return best
    master = Master(left, rooms, model.unplaced(left))
    columns = [*dict.fromkeys((one.group, one.packing) for one in known)]
    for group, packing in columns:
        master.add(model.cost(group, packing), group, packing)
    while True:
        units, scarce = master.solve()
        values, found = _valid(model, wanted, units, scarce)
        bound = values.bound(left, rooms)
        if bound > best.bound:
            best = msgspec.structs.replace(best, bound=bound, values=values)
        new = [one for one in found if one not in columns]
        if not new or model.is_over:
            break
        for group, packing in new:
            master.add(model.cost(group, packing), group, packing)
        columns += new
    amounts = [(NodePurchase(*columns[number]), much) for number, much in master.solution()]
    return msgspec.structs.replace(best, worth=tuple(units), amounts=tuple(amounts))


def _simple(
    model: CostModel, left: Sequence[int], wanted: Sequence[int], rooms: Sequence[int], start: Sequence[float]
) -> Relaxed:
    """The bound that plain values give."""
    values, _ = _valid(model, wanted, start, [0.0] * len(rooms))
    return Relaxed(values.bound(left, rooms), values, tuple(start))


def _valid(
    model: CostModel, wanted: Sequence[int], units: Sequence[float], rooms: Sequence[float]
) -> tuple[Values, list[tuple[int, tuple[tuple[int, int], ...]]]]:
    """Values that no node's packing exceeds, and the packings that did."""
    scale, found = 1.0, []
    for group, (cost, room) in enumerate(zip(model.costs.nodes, rooms, strict=True)):
        offer = model.offer(group, units, wanted)
        most = cost - room
        if offer.value > most * (1 + _GAIN):
            found.append((group, offer.packing))
        if offer.bound > most:
            scale = min(scale, most / offer.bound)
    return Values(tuple(value * scale for value in units), tuple(rooms)), found
