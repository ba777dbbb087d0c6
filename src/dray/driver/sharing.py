"""Devices that share hardware, in the words of an author. Pure.

Partitions of one piece of hardware are devices that draw on the same counters: `counter_set` says how much there is, and
`consumes` how much of it one partition takes. A device that several claims use at once has capacities that are handed out
in portions: `portions` says which. Left out: the rest of a device (`pools`), and counting what is left (the scheduler).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.api.wire import Tree

Amount = int | str
"""A quantity of the API: 40, "40Gi", "500m"."""


def counter_set(name: str, counters: Mapping[str, Amount]) -> Tree:
    """What partitions share, for `Pool(shared_counters=[…])`."""
    return {"name": name, "counters": _counters(counters)}


def consumes(counter_set: str, counters: Mapping[str, Amount], groups: Sequence[str] = ()) -> Tree:
    """What one partition takes of a counter set, for `device(…, consumesCounters=[…])`.

    `groups` are compatibility groups: partitions on one counter set must have one in common to be in use at once.
    """
    tree: Tree = {"counterSet": counter_set, "counters": _counters(counters)}
    return {**tree, "compatibilityGroups": [*groups]} if groups else tree


def portions(
    total: Amount,
    *,
    default: Amount,
    values: Sequence[Amount] = (),
    minimum: Amount | None = None,
    maximum: Amount | None = None,
    step: Amount | None = None,
) -> Tree:
    """A capacity that claims share, for `device(…, capacity={…}, allowMultipleAllocations=True)`.

    A claim gets `default` unless it asks for more or less. What it asks for is rounded up to the next of `values`, or to
    `minimum` plus a multiple of `step`; a claim that asks for more than the largest portion does not get the device.
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


def _counters(counters: Mapping[str, Amount]) -> Tree:
    return {name: {"value": str(value)} for name, value in counters.items()}
