"""Allocation of devices to claims: pure, exact, and fast enough to ask for every node.

    allocate(node, claims, classes, slices, taken, features, steps)

serves all claims together on one node, or returns why that is impossible. The result is an `Allocated`, an
`Unallocatable`
with an explanation, a `Failed` for wrong input, or `GaveUp` if the allowed steps did not suffice. It always equals
the answer
that the allocator of Kubernetes v1.37 gives or would give with enough time: the first solution in the order of
claims,
requests, alternatives and devices. `Index` gives the same answers from cached state, and finds which of many nodes
fit.
`verify` checks an allocation independently of how it was found. See docs/allocator.md for details with examples.

Input objects are the structs of `dray.api.types`; results to be written are JSON trees. Reasons for failures use the
codes of
`dray.api.reasons.devices`.
"""

from typing import TYPE_CHECKING

from dray.lazy import lazily

if TYPE_CHECKING:
    from dray.allocator.allocation import allocate
    from dray.allocator.budget import UNLIMITED, Budget, Turn, steps_in
    from dray.allocator.identity import Features
    from dray.allocator.index import Fits, Index
    from dray.allocator.outcome import Allocated, AllocationOutcome, Failed, GaveUp, Unallocatable
    from dray.allocator.verification import verify
    from dray.allocator.work import LeftOver, Work

__all__ = [
    "UNLIMITED",
    "Allocated",
    "AllocationOutcome",
    "Budget",
    "Failed",
    "Features",
    "Fits",
    "GaveUp",
    "Index",
    "LeftOver",
    "Turn",
    "Unallocatable",
    "Work",
    "allocate",
    "steps_in",
    "verify",
]

__getattr__ = lazily(
    __name__,
    {
        "allocation": ("allocate",),
        "budget": ("UNLIMITED", "Budget", "Turn", "steps_in"),
        "identity": ("Features",),
        "index": ("Fits", "Index"),
        "outcome": ("Allocated", "Failed", "GaveUp", "AllocationOutcome", "Unallocatable"),
        "verification": ("verify",),
        "work": ("LeftOver", "Work"),
    },
)
