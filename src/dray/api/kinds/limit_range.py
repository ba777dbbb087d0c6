"""LimitRange: limits and defaults of the resources that containers and claims in a namespace request."""

from __future__ import annotations

from collections.abc import Mapping

from dray.api import names
from dray.api.cells import UNKNOWN
from dray.api.columns import NAME, text
from dray.api.errors import forbidden, invalid, required
from dray.api.kind import KindRules, Resource
from dray.api.paths import Path
from dray.api.quantity import Quantity
from dray.api.resource_names import any_resource_name, may_overcommit, resource_name
from dray.api.rules import Errors, named
from dray.api.types import core
from dray.api.wire import Tree

_LIMITED = ("Container", "PersistentVolumeClaim", "Pod")
_WORDS = {"min": "min", "defaultRequest": "default request", "default": "default", "max": "max"}
# (smaller field, larger field, field of the error, field whose amount is shown).
_ORDER = (
    ("min", "max", "min", "min"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
    ("min", "default", "default", "min"),
    ("default", "max", "default", "max"),
)


def _defaults(tree: Tree) -> None:
    """Add default limits of containers from their maximum, and default requests from their minimum and limits."""
    for item in tree.setdefault("spec", {}).get("limits") or ():
        if item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            item.update({name: value for name, value in (("default", limits), ("defaultRequest", requests)) if value})


KIND = Resource(
    core.LimitRange,
    short_names=("limits",),
    columns=(NAME, text("Created At", "metadata.creationTimestamp", UNKNOWN)),
    rules=KindRules(order=("metadata", "rules", "changes")),
    more_defaults=_defaults,
    is_created_by_update=True,
)


def limited_type(item: core.LimitRangeItem, path: Path) -> Errors:
    """Yield errors if the type of a LimitRange item is invalid, or its fields do not fit the type."""
    faults = [*named(item.type, path / "type", names.qualified_name)]
    yield from faults
    if not faults and item.type not in _LIMITED and "/" not in item.type:
        yield invalid(path / "type", item.type, "must be a standard limit type or fully qualified")
    if item.type == "Pod":
        for field in ("default", "defaultRequest"):
            if getattr(item, field):
                yield forbidden(path / field, "may not be specified when `type` is 'Pod'")
    if item.type == "PersistentVolumeClaim" and not {"storage"} & (item.min.keys() | item.max.keys()):
        yield required(path / "limits", "either minimum or maximum storage value is required, but neither was provided")


def amounts(item: core.LimitRangeItem, path: Path) -> Errors:
    """Yield errors in the amounts of a LimitRange item: resource names, order, ratio and overcommitment."""
    fields = ("max", "min", *(("default", "defaultRequest") if item.type != "Pod" else ()), "maxLimitRequestRatio")
    given = {field: {name: Quantity.parse(text) for name, text in getattr(item, field).items()} for field in fields}
    check = resource_name if item.type in ("Container", "Pod") else any_resource_name
    for field in fields:
        for name in given[field]:
            yield from check(name, path / field % name)
    for name in sorted({name for listed in given.values() for name in listed}):
        found = {field: given[field][name] for field in fields if name in given[field]}
        yield from _order(found, name, path)
        yield from _ratio(found, name, path)
        request, limit = found.get("defaultRequest"), found.get("default")
        if not may_overcommit(name) and request is not None and limit is not None and request != limit:
            text = f"default value {limit} must equal to defaultRequest value {request} in {name}"
            yield invalid(path / "defaultRequest" % name, str(request), text)


def _order(amounts: Mapping[str, Quantity], name: str, path: Path) -> Errors:
    """Yield errors if amounts of one resource violate the order min ≤ defaultRequest ≤ default ≤ max.

    `amounts` has the amounts by name of the field; missing ones are not compared.
    """
    for low, high, at, shown in _ORDER:
        less, more = amounts.get(low), amounts.get(high)
        if less is not None and more is not None and less > more:
            limit = "default limit" if (low, high) == ("defaultRequest", "default") else _WORDS[high]
            text = f"{_WORDS[low]} value {less} is greater than {limit} value {more}"
            yield invalid(path / at % name, str(amounts[shown]), text)


def _ratio(amounts: Mapping[str, Quantity], name: str, path: Path) -> Errors:
    ratio, low, high = (amounts.get(field) for field in ("maxLimitRequestRatio", "min", "max"))
    if ratio is None:
        return
    here = path / "maxLimitRequestRatio" % name
    if ratio < Quantity.parse(1):
        yield invalid(here, str(ratio), f"ratio {ratio} is less than 1")
    if low is not None and high is not None and low.sign > 0 and ratio.milli() * low.milli() > high.milli() * 1000:
        text = f"ratio {ratio} is greater than max/min = {high.milli() / low.milli():f}"
        yield invalid(here, str(ratio), text)
