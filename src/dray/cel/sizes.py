"""Maximum sizes of the parts of a device as declared by Kubernetes; used to estimate costs.

A part is addressed by its path: `device`, followed by field names, `@keys` or `@values`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from dray.cel.environment import CelFeatures
from dray.cel.ranges import Range

_MAX_DOMAIN = 63
_MAX_ID = 32
_MAX_DRIVER = 63
_MAX_ATTRIBUTE_VALUE = 64
_MAX_ENTRIES = 32

SizePath = tuple[str, ...]


class Sizes(Protocol):
    """Declared sizes of the variables of an expression."""

    def size(self, path: SizePath) -> Range | None:
        """Return the size range of the value at a path, or None if nothing is declared."""


@dataclass(frozen=True, slots=True)
class _Part:
    most: int
    key: _Part | None = None
    element: _Part | None = None
    fields: dict[str, _Part] = field(default_factory=dict)
    any_name: bool = False  # whether elements can also be accessed like fields, with any name


def _device(features: CelFeatures) -> _Part:
    attribute = _Part(_MAX_ATTRIBUTE_VALUE)
    identifier, domain = _Part(_MAX_ID), _Part(_MAX_DOMAIN)
    attributes = _Part(_MAX_ENTRIES, identifier, attribute, any_name=True)
    capacities = _Part(_MAX_ENTRIES, identifier, _Part(0))
    fields = {
        "driver": _Part(_MAX_DRIVER),
        "attributes": _Part(_MAX_ENTRIES, domain, attributes),
        "capacity": _Part(_MAX_ENTRIES, domain, capacities),
    }
    if features.consumable_capacity:
        fields["allowMultipleAllocations"] = _Part(1)
    return _Part(0, fields=fields)


class DeviceSizes:
    """Declared sizes of the parts of a device."""

    def __init__(self, features: CelFeatures) -> None:
        self._device = _device(features)

    def size(self, path: SizePath) -> Range | None:
        """Return the size range of the part at a path, or None if nothing is declared.

        The path starts with "device"; other paths have no size.
        """
        if not path or path[0] != "device":
            return None
        part: _Part | None = self._device
        for name in path[1:]:
            if part is None:
                return None
            part = _step(part, name)
        return None if part is None else Range(0, part.most)


def _step(part: _Part, name: str) -> _Part | None:
    if name in ("@items", "@values"):
        return part.element
    if name == "@keys":
        return part.key
    return part.fields.get(name) or (part.element if part.any_name else None)
