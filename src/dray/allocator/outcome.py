"""The four possible outcomes of an allocation: Allocated, Unallocatable, Failed and GaveUp.

Each contains what a scheduler needs to act and what an explanation needs. Left out: the search (`search`) and the
text for people (`dray.api.reasons.wording`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dray.allocator.budget import StepMeter
from dray.allocator.identity import ALTERNATIVES_LIMIT
from dray.api.allocations import DeviceId, Taken
from dray.api.reasons.devices import InputProblem, Reasons, TimedOut
from dray.api.types.resource import AllocationResult, ResourceClaim


class Allocated(msgspec.Struct, frozen=True):
    """Every claim has its devices.

    `results` contains an AllocationResult for each claim, as a JSON tree for `status.allocation`. `taken` contains the devices
    and shares that each claim takes. `alternatives` contains, for each claim and request, the index of the chosen alternative
    (None: the request has no alternatives).
    """

    results: tuple[dict[str, Any], ...]
    taken: tuple[Taken, ...]
    alternatives: tuple[tuple[int | None, ...], ...]

    @property
    def devices(self) -> tuple[tuple[DeviceId, ...], ...]:
        """The devices that each claim takes, whole or in part, in the order of the claims."""
        return tuple(taken.touched for taken in self.taken)

    def allocations(self, claims: Sequence[ResourceClaim]) -> dict[str, AllocationResult]:
        """Return the allocations by name of claim. `claims` must be the claims of the question."""
        pairs = zip(claims, self.results, strict=True)
        return {claim.metadata.name: msgspec.convert(result, AllocationResult) for claim, result in pairs}

    @property
    def score(self) -> int:
        """The score of KEP-4816: 8 minus the index of the alternative, summed over all requests with alternatives."""
        return score(self.alternatives)


class Unallocatable(msgspec.Struct, frozen=True, eq=False):
    """The node cannot serve all claims. The reasons are computed on request."""

    diagnose: Callable[[StepMeter | None], Reasons]

    def explain(self, meter: StepMeter | None = None) -> Reasons:
        """Return the reasons. Those that take more steps than the meter allows are missing."""
        return self.diagnose(meter)


class Failed(msgspec.Struct, frozen=True):
    """The input is invalid."""

    problem: InputProblem

    @property
    def node_only(self) -> bool:
        """Whether the problem concerns this node only, so that another node can serve the claims."""
        return self.problem.node_only


class GaveUp(msgspec.Struct, frozen=True):
    """The steps ran out. `progress` says how far the search had come."""

    progress: TimedOut


AllocationOutcome = Allocated | Unallocatable | Failed | GaveUp


def score(alternatives: tuple[tuple[int | None, ...], ...]) -> int:
    """Return 8 minus the index of the chosen alternative, summed over all requests with alternatives.

    `alternatives` contains the index for each claim and request, or None for a request without alternatives.
    """
    return sum(ALTERNATIVES_LIMIT - index for claim in alternatives for index in claim if index is not None)
