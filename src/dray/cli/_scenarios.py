"""Allocator scenarios: one JSON object a line, with everything that an allocation depends on.

The recorded answers of Kubernetes v1.37 have this form; what else a line holds (`want`) is ignored.
"""

from __future__ import annotations

import msgspec

from dray.allocator import Features, Outcome, allocate
from dray.api.types.core import Node
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice


class ScenarioError(ValueError):
    """A line that is no scenario; says where and why."""


class Switches(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Features by the names that scenarios give them."""

    adminAccess: bool = True
    prioritizedList: bool = True
    deviceTaints: bool = True


class Scenario(msgspec.Struct, frozen=True):
    """A question to the allocator."""

    id: str
    node: Node
    classes: tuple[DeviceClass, ...]
    slices: tuple[ResourceSlice, ...]
    claims: tuple[ResourceClaim, ...]
    allocated: tuple[tuple[str, str, str], ...] = ()
    features: Switches = Switches()

    def ask(self, deadline: float | None = None) -> Outcome:
        """The allocator's answer."""
        switches = self.features
        features = Features(switches.adminAccess, switches.prioritizedList, switches.deviceTaints)
        return allocate(self.node, self.claims, self.classes, self.slices, self.allocated, features, deadline)


_decoder = msgspec.json.Decoder(Scenario)


def read_scenario(line: str | bytes, place: str) -> Scenario:
    """A line as a question; `place` tells where it stands."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ScenarioError(f"{place}: {error}") from error
