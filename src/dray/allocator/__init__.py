"""Allocation of devices to claims: pure, exact, and fast enough to ask for every node.

    allocate(node, claims, classes, slices, taken, features, deadline)

serves all claims together on one node, or says why not. The answer is an `Allocated`, an `Unallocatable` that explains
itself, a `Failed` for wrong input, or `GaveUp` when the deadline came first. It is always the answer that the allocator
of Kubernetes v1.37 gives or would give if it had the time: the first in the order of claims, requests, alternatives and
devices. `Index` gives the same answers from state that is kept warm, and tells which of many nodes fit. `verify` checks
an allocation without knowing how it was found. See docs/allocator.md for how and why, with examples.

Objects come in as the structs of `dray.api.types`; what is to be written goes out as JSON trees.
"""

from dray.allocator.allocation import allocate
from dray.allocator.identity import DeviceId, Features
from dray.allocator.index import Fits, Index
from dray.allocator.outcome import Allocated, Failed, GaveUp, Outcome, Unallocatable
from dray.allocator.reasons import (
    AlternativeReasons,
    Conflict,
    ConstraintReasons,
    PoolReasons,
    Reasons,
    RequestReasons,
    Step,
)
from dray.allocator.verify import verify

__all__ = [
    "Allocated",
    "AlternativeReasons",
    "Conflict",
    "ConstraintReasons",
    "DeviceId",
    "Failed",
    "Features",
    "Fits",
    "GaveUp",
    "Index",
    "Outcome",
    "PoolReasons",
    "Reasons",
    "RequestReasons",
    "Step",
    "Unallocatable",
    "allocate",
    "verify",
]
