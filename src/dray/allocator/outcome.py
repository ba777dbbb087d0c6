"""What comes out of an allocation: one of four outcomes.

Allocated, Unallocatable, Failed and GaveUp are the only answers. Each says enough for a scheduler to act and for a
person to understand. Left out: how they are found (`search`) and worded for people (`reasons`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dray.allocator.identity import ALTERNATIVES_LIMIT, DeviceId
from dray.allocator.reasons import Reasons


class Allocated(msgspec.Struct, frozen=True):
    """Every claim got its devices.

    `results` has one AllocationResult a claim as a JSON tree, ready to be written to `status.allocation`; `devices`
    lists the devices of each claim that are now taken, those with admin access left out; `alternatives` gives, for
    each claim and each of its requests, the index of the alternative that was chosen (None: the request has none).
    """

    results: tuple[dict[str, Any], ...]
    devices: tuple[tuple[DeviceId, ...], ...]
    alternatives: tuple[tuple[int | None, ...], ...]

    @property
    def score(self) -> int:
        """The preference that KEP-4816 gives this answer: eight less the index, over all requests with alternatives."""
        return score(self.alternatives)


class Unallocatable(msgspec.Struct, frozen=True, eq=False):
    """There is no way to serve all claims on this node. The reasons are worked out when asked for."""

    explain: Callable[[], Reasons]

    @property
    def reason(self) -> str:
        """One line for an event."""
        return self.explain().line()


class Failed(msgspec.Struct, frozen=True):
    """The input is wrong, in the words of Kubernetes. `node_only`: another node may still do."""

    error: str
    node_only: bool = False


class GaveUp(msgspec.Struct, frozen=True):
    """The deadline passed first; `progress` says how far the search had come."""

    progress: str


Outcome = Allocated | Unallocatable | Failed | GaveUp


def score(alternatives: tuple[tuple[int | None, ...], ...]) -> int:
    """Eight less the index of the chosen alternative, summed over all requests that have alternatives."""
    return sum(ALTERNATIVES_LIMIT - index for claim in alternatives for index in claim if index is not None)
