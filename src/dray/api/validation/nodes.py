"""Validation of node selectors in affinity, slices and allocations."""

from __future__ import annotations

from dray.api import names
from dray.api.errors import FieldError, forbidden, invalid, required
from dray.api.paths import Path
from dray.api.rules import Errors, checked, named
from dray.api.schema import CORE
from dray.api.types import core

_SETS = ("In", "NotIn")
_PRESENCE = ("Exists", "DoesNotExist")
_ORDER = ("Gt", "Lt")
_FIELDS = ("metadata.name",)


def node_selector(selector: core.NodeSelector, path: Path) -> list[FieldError]:
    """Return the errors in a node selector."""
    return checked(f"{CORE}NodeSelector", selector, path)


def expression(requirement: core.NodeSelectorRequirement, path: Path) -> Errors:
    """Yield errors in a condition on node labels: operator, values and key."""
    operator, values = requirement.operator, requirement.values
    if operator in _SETS:
        if not values:
            yield required(path / "values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _PRESENCE:
        if values:
            yield forbidden(path / "values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in _ORDER:
        if len(values) != 1:
            yield required(path / "values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(path / "operator", operator, "not a valid selector operator")
    yield from named(requirement.key, path / "key", names.qualified_name)
    for index, value in enumerate(values):
        yield from named(value, path / "values" / index, names.label_value)


def field(requirement: core.NodeSelectorRequirement, path: Path) -> Errors:
    """Yield errors in a condition on node fields; only metadata.name is supported."""
    if requirement.operator in _SETS:
        if len(requirement.values) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield required(path / "values", text)
    else:
        yield invalid(path / "operator", requirement.operator, "not a valid selector operator")
    if requirement.key not in _FIELDS:
        yield invalid(path / "key", requirement.key, "not a valid field selector key")
        return
    for index, value in enumerate(requirement.values):
        for text in names.subdomain_reference(value):
            yield invalid(path / "values" / index, value, text)
