"""Libraries of all CEL expressions, and the environment of device selectors: the variable `device` and its fields.

The libraries are listed in the order in which Kubernetes adds them, because this determines the order of overloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from dray.cel import types
from dray.cel.declarations import Environment, Function, collect
from dray.cel.library import (
    authorization,
    conversions,
    formats,
    lists,
    network,
    operators,
    optionals,
    ordering,
    quantities,
    regex,
    strings,
    times,
    urls,
    versions,
)
from dray.cel.types import Type, list_of, map_of, param, type_of


@dataclass(frozen=True, slots=True)
class CelFeatures:
    """Feature gates that change which selectors are valid."""

    consumable_capacity: bool = True
    list_attributes: bool = False


DEFAULT_FEATURES = CelFeatures()
STORED = CelFeatures(consumable_capacity=True, list_attributes=True)
"""Features for expressions that are already stored: they stay valid after a feature gate is turned off."""

NAMED_TYPES = (
    types.BOOL,
    types.BYTES,
    types.DOUBLE,
    types.DURATION,
    types.INT,
    types.NULL,
    types.STRING,
    types.TIMESTAMP,
    types.TYPE,
    types.UINT,
    list_of(param("A")),
    map_of(param("A"), param("B")),
    types.optional_of(types.DYN),
    types.CIDR,
    types.IP,
    types.QUANTITY,
    types.SEMVER,
    types.URL,
    types.FORMAT,
)

LIBRARIES = (
    operators.FUNCTIONS,
    conversions.FUNCTIONS,
    strings.FUNCTIONS,
    regex.STANDARD,
    times.FUNCTIONS,
    urls.FUNCTIONS,
    regex.FUNCTIONS,
    lists.FUNCTIONS,
    authorization.FUNCTIONS,
    optionals.FUNCTIONS,
    ordering.FUNCTIONS,
    quantities.FUNCTIONS,
    strings.EXTENSION,
    lists.SETS,
    network.FUNCTIONS,
    formats.FUNCTIONS,
    lists.MAP_INSERTION,
    versions.FUNCTIONS,
    lists.EXTENSION,
)


@cache
def every_function() -> Mapping[str, Function]:
    """Return all functions of all libraries by name, regardless of feature gates; used to look up prices."""
    return collect([*LIBRARIES, lists.INCLUDES])


def attribute_type(features: CelFeatures) -> Type:
    """Return the CEL type of attribute values: dyn if list attributes are enabled, otherwise any."""
    return types.DYN if features.list_attributes else types.ANY


@lru_cache(maxsize=8)
def device_environment(features: CelFeatures) -> Environment:
    """Return the environment of device selectors for these feature gates."""
    fields = {
        "driver": types.STRING,
        "attributes": map_of(types.STRING, map_of(types.STRING, attribute_type(features))),
        "capacity": map_of(types.STRING, map_of(types.STRING, types.QUANTITY)),
    }
    if features.consumable_capacity:
        fields["allowMultipleAllocations"] = types.BOOL
    return Environment(
        functions=collect([*LIBRARIES, lists.INCLUDES] if features.list_attributes else LIBRARIES),
        variables={"device": types.DEVICE},
        types={named.name: type_of(named) for named in (*NAMED_TYPES, types.DEVICE)},
        fields={types.DEVICE.name: fields},
    )
