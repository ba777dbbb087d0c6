"""What comes out of an allocation: one of four outcomes.

Allocated, Unallocatable, Failed and GaveUp are the only answers. Each says enough for a scheduler to act and for a
person to understand. Left out: how they are found (`search`) and worded for people (`dray.api.reasons.wording`).
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
    """Every claim got its devices.

    `results` has one AllocationResult a claim as a JSON tree, ready to be written to `status.allocation`; `taken` tells
    for each claim which devices and shares it now takes; `alternatives` gives, for each claim and each of its requests,
    the index of the alternative that was chosen (None: the request has none).
    """

    results: tuple[dict[str, Any], ...]
    taken: tuple[Taken, ...]
    alternatives: tuple[tuple[int | None, ...], ...]

    @property
    def devices(self) -> tuple[tuple[DeviceId, ...], ...]:
        """For each claim, the devices that are now in use, whole or in part."""
        return tuple(taken.touched for taken in self.taken)

    def allocations(self, claims: Sequence[ResourceClaim]) -> dict[str, AllocationResult]:
        """What the claims that were asked for get, by name."""
        pairs = zip(claims, self.results, strict=True)
        return {claim.metadata.name: msgspec.convert(result, AllocationResult) for claim, result in pairs}

    @property
    def score(self) -> int:
        """The preference that KEP-4816 gives this answer: eight less the index, over all requests with alternatives."""
        return score(self.alternatives)


class Unallocatable(msgspec.Struct, frozen=True, eq=False):
    """There is no way to serve all claims on this node. The reasons are worked out when asked for."""

    diagnose: Callable[[StepMeter | None], Reasons]

    def explain(self, meter: StepMeter | None = None) -> Reasons:
        """Why. What takes more steps than the meter's limit is left out."""
        return self.diagnose(meter)


class Failed(msgspec.Struct, frozen=True):
    """The input is wrong."""

    problem: InputProblem

    @property
    def node_only(self) -> bool:
        """Whether another node may still do."""
        return self.problem.node_only


class GaveUp(msgspec.Struct, frozen=True):
    """The steps that it may take were not enough; `progress` says how far the search had come."""

    progress: TimedOut


Outcome = Allocated | Unallocatable | Failed | GaveUp


def score(alternatives: tuple[tuple[int | None, ...], ...]) -> int:
    """Eight less the index of the chosen alternative, summed over all requests that have alternatives."""
    return sum(ALTERNATIVES_LIMIT - index for claim in alternatives for index in claim if index is not None)
