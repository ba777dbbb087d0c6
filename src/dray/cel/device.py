"""A device as CEL expressions see it: driver, attributes and capacities by domain, and whether it can be shared.

A view is built once per device and never changed; versions and quantities are parsed while it is built. A name
without a domain belongs to the domain of the driver. Domains and names have a fixed order (the driver's domain
first, then sorted by name), so a loop over them always has the same cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dray.api.quantity import Quantity, QuantityError
from dray.api.semver import Semver, SemverError
from dray.cel.values import DomainMap, Value, valid_text


class DeviceAttributeLike(Protocol):
    """Protocol of a DeviceAttribute, of which exactly one field is set."""

    @property
    def string(self) -> str | None: ...
    @property
    def int(self) -> int | None: ...
    @property
    def bool(self) -> bool | None: ...
    @property
    def version(self) -> str | None: ...


class Capacity(Protocol):
    """Protocol of a DeviceCapacity."""

    @property
    def value(self) -> str: ...


class DeviceView:
    """The value of the variable `device`. `error` is set if an attribute or capacity has no valid value."""

    __slots__ = ("_variable", "allow_multiple_allocations", "attributes", "capacity", "driver", "error")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, DeviceAttributeLike] | None = None,
        capacity: Mapping[str, Capacity] | None = None,
        allow_multiple_allocations: bool | None = None,
    ) -> None:
        self.driver = valid_text(driver)
        self.allow_multiple_allocations = bool(allow_multiple_allocations)
        self.error: str | None = None
        self._variable: dict[str, Value] | None = None
        self.attributes = self._by_domain({name: self._attribute(name, of) for name, of in (attributes or {}).items()})
        self.capacity = self._by_domain({name: self._capacity(name, of) for name, of in (capacity or {}).items()})

    @property
    def variable(self) -> dict[str, Value]:
        """The device as a map, for expressions that use the whole device. Created on first use."""
        if self._variable is None:
            self._variable = {
                "driver": self.driver,
                "allowMultipleAllocations": self.allow_multiple_allocations,
                "attributes": self.attributes,
                "capacity": self.capacity,
            }
        return self._variable

    def _by_domain(self, values: dict[str, Value]) -> DomainMap:
        found: dict[str, dict[str, Value]] = {}
        for name in sorted(values):
            domain, slash, identifier = name.partition("/")
            if not slash:
                domain, identifier = self.driver, name
            found.setdefault(domain, {})[identifier] = values[name]
        return DomainMap(sorted(found.items(), key=lambda item: (item[0] != self.driver, item[0])))

    def _fail(self, message: str) -> None:
        self.error = self.error or message

    def _attribute(self, name: str, attribute: DeviceAttributeLike) -> Value:
        try:
            return _value(attribute)
        except SemverError as error:
            self._fail(f"attribute {name}: parse semantic version: {error}")
        except ValueError as error:
            self._fail(f"attribute {name}: {error}")
        return None

    def _capacity(self, name: str, capacity: Capacity) -> Value:
        try:
            return Quantity.from_json(capacity.value)
        except QuantityError as error:
            self._fail(f"capacity {name}: {error}")
            return None


def _value(attribute: DeviceAttributeLike) -> Value:
    for name in ("ints", "bools", "strings"):
        values: Sequence[Value] = getattr(attribute, name, ())
        if values:
            return [valid_text(value) if isinstance(value, str) else value for value in values]
    versions: Sequence[str] = getattr(attribute, "versions", ())
    if versions:
        return [Semver.parse(text) for text in versions]
    if attribute.int is not None:
        return attribute.int
    if attribute.bool is not None:
        return attribute.bool
    if attribute.string is not None:
        return valid_text(attribute.string)
    if attribute.version is not None:
        return Semver.parse(attribute.version)
    raise ValueError("unsupported attribute value")
