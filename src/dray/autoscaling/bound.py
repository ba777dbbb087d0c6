"""Lower bound on the cost of any plan, and packings that come close: a linear program over all packings.

Packings are added step by step, each the most valuable of its group at the current values of units (column
generation). After each round, the values are scaled down until no node of any group can hold more value than it
costs, which gives a valid bound. The computation may therefore stop at any time. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dray.autoscaling.cost_model import CostModel, NodePurchase, Values
from dray.autoscaling.greedy import first_values, share_values
from dray.autoscaling.simplex import Master

_GAIN = 1e-7  # relative to a node's cost: packings that exceed it by less are ignored
KINDS = 150  # limit of kinds for the linear program; beyond, the bound uses simple values


class Relaxed(msgspec.Struct, frozen=True):
    """Solution of the linear program: best bound with its values, final worth of units, and fractional purchases."""

    bound: float
    values: Values
    worth: tuple[float, ...]
    amounts: tuple[tuple[NodePurchase, float], ...] = ()


def relax(
    model: CostModel, left: Sequence[int], wanted: Sequence[int], rooms: Sequence[int], known: Iterable[NodePurchase]
) -> Relaxed:
    """Solve the linear program, starting with the packings of known purchases.

    The returned values are valid for any plan out of the `wanted` units, not only for the `left` units.
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
    """Return the bound that given unit values provide."""
    values, _ = _valid(model, wanted, start, [0.0] * len(rooms))
    return Relaxed(values.bound(left, rooms), values, tuple(start))


def _valid(
    model: CostModel, wanted: Sequence[int], units: Sequence[float], rooms: Sequence[float]
) -> tuple[Values, list[tuple[int, tuple[tuple[int, int], ...]]]]:
    """Return values scaled so that no packing exceeds its node's cost, and the packings that exceeded it.

    A packing is returned as (group, packing), where group is an index.
    """
    scale, found = 1.0, []
    for group, (cost, room) in enumerate(zip(model.costs.nodes, rooms, strict=True)):
        offer = model.offer(group, units, wanted)
        most = cost - room
        if offer.value > most * (1 + _GAIN):
            found.append((group, offer.packing))
        if offer.bound > most:
            scale = min(scale, most / offer.bound)
    return Values(tuple(value * scale for value in units), tuple(rooms)), found
