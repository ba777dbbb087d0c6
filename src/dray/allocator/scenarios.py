"""Allocator scenarios: one JSON object a line, with everything that an allocation depends on.

The recorded answers of Kubernetes v1.37 have this form; what else a line holds (`want`) is ignored.
"""

from __future__ import annotations

import msgspec

from dray.allocator import AllocationOutcome, Features, allocate
from dray.api.allocations import Share
from dray.api.types.core import Node
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice


class ScenarioError(ValueError):
    """A line that is no scenario; says where and why."""


class Switches(Features, frozen=True, forbid_unknown_fields=True):
    """Features by the names that scenarios give them: adminAccess, derivedAttributes, …"""


class ScenarioShare(msgspec.Struct, frozen=True):
    """A share of a device that somebody has already, and what it consumes."""

    driver: str
    pool: str
    device: str
    share: str
    consumed: dict[str, str] = {}


class Scenario(msgspec.Struct, frozen=True):
    """A question to the allocator."""

    id: str
    node: Node
    classes: tuple[DeviceClass, ...]
    slices: tuple[ResourceSlice, ...]
    claims: tuple[ResourceClaim, ...]
    allocated: tuple[tuple[str, str, str], ...] = ()
    shares: tuple[ScenarioShare, ...] = ()
    features: Switches = Switches()

    @property
    def held(self) -> tuple[Share, ...]:
        """The shares that are in use."""
        return tuple(Share.of((one.driver, one.pool, one.device), one.share, one.consumed) for one in self.shares)

    def ask(self, steps: int | None = None) -> AllocationOutcome:
        """The allocator's answer within `steps` steps (None: no limit)."""
        return allocate(
            self.node, self.claims, self.classes, self.slices, self.allocated, self.features, steps, self.held
        )


_decoder = msgspec.json.Decoder(Scenario)


def read_scenario(line: str | bytes, place: str) -> Scenario:
    """A line as a question; `place` tells where it stands. Raises ScenarioError if the line is no scenario."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ScenarioError(f"{place}: {error}") from error
