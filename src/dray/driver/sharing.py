"""Devices that share hardware, as a driver author describes them. Pure.

Partitions of one piece of hardware are devices that consume the same counters: `counter_set` defines the total
amounts, and `consumes` the amounts that one partition takes. A device that several claims use at once has capacities
that are allocated in portions, which `portions` defines. Left out: the rest of a device (`pools`), and counting what
is left (the scheduler).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.api.wire import Tree

CapacityAmount = int | str
"""A quantity of the API: 40, "40Gi", "500m"."""


def counter_set(name: str, counters: Mapping[str, CapacityAmount]) -> Tree:
    """Return a counter set that partitions share, for `Pool(shared_counters=[…])`."""
    return {"name": name, "counters": _counters(counters)}


def consumes(counter_set: str, counters: Mapping[str, CapacityAmount], groups: Sequence[str] = ()) -> Tree:
    """Return the counters that one partition consumes, for `device(…, consumesCounters=[…])`.

    `groups` are compatibility groups: partitions on one counter set must have a group in common to be used at the
    same time. `counter_set` is the name of the set.
    """
    tree: Tree = {"counterSet": counter_set, "counters": _counters(counters)}
    return {**tree, "compatibilityGroups": [*groups]} if groups else tree


def portions(
    total: CapacityAmount,
    *,
    default: CapacityAmount,
    values: Sequence[CapacityAmount] = (),
    minimum: CapacityAmount | None = None,
    maximum: CapacityAmount | None = None,
    step: CapacityAmount | None = None,
) -> Tree:
    """Return a capacity that claims share, for `device(…, capacity={…}, allowMultipleAllocations=True)`.

    A claim gets `default` unless it requests another amount. A request is rounded up to the next of `values`, or to
    `minimum` plus a multiple of `step`; a claim that requests more than the largest portion does not get the device.
    Raises ValueError for a contradictory combination.
    """
    bounds = {"min": minimum, "max": maximum, "step": step}
    if values and any(bound is not None for bound in bounds.values()):
        raise ValueError("portions: give either values or a range (minimum, maximum, step), not both")
    if minimum is None and (maximum is not None or step is not None):
        raise ValueError("portions: a range needs a minimum")
    policy: Tree = {"default": str(default)}
    if values:
        policy["validValues"] = [str(value) for value in values]
    if minimum is not None:
        policy["validRange"] = {name: str(bound) for name, bound in bounds.items() if bound is not None}
    return {"value": str(total), "requestPolicy": policy}


def _counters(counters: Mapping[str, CapacityAmount]) -> Tree:
    return {name: {"value": str(value)} for name, value in counters.items()}
