"""Validation of cluster settings: LimitRanges, RuntimeClasses and APIServices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required
from dray.api.paths import METADATA, Path
from dray.api.quantity import Quantity
from dray.api.types import apiregistration, core
from dray.api.validation.containers import any_resource_name, may_overcommit, resource, resource_name
from dray.api.validation.lists import Errors, named
from dray.api.written import as_go

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


# LimitRange


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
    """Yield errors if amounts of one resource violate the order min ≤ defaultRequest ≤ default ≤ max."""
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


# RuntimeClass


def overhead(amounts: Mapping[str, str], path: Path) -> Errors:
    """Yield errors in the resources of a RuntimeClass's overhead."""
    for name, amount in amounts.items():
        yield from resource(name, amount, path % name)


def same_tolerations(tolerations: Sequence[core.Toleration], path: Path) -> Errors:
    """Yield an error for each duplicate toleration."""
    seen: set[tuple[str, ...]] = set()
    for index, one in enumerate(tolerations):
        if (key := (one.key, one.operator, one.value, one.effect)) in seen:
            yield duplicate(path / index, as_go(one))
        seen.add(key)


# APIService


def api_service_name(service: apiregistration.APIService, _: Path | None) -> Errors:
    """Yield an error if the name of an APIService is not VERSION.GROUP of its spec."""
    expected = f"{service.spec.version}.{service.spec.group}"
    if service.metadata.name and service.metadata.name != expected:
        text = f'must be `spec.version+"."+spec.group`: "{expected}"'
        yield invalid(METADATA / "name", service.metadata.name, text)


def ca_bundle(spec: apiregistration.APIServiceSpec, path: Path) -> Errors:
    """Yield errors if an APIService has a caBundle but is local or skips TLS verification."""
    if spec.service is None and spec.caBundle:
        yield invalid(path / "caBundle", f"{len(spec.caBundle)} bytes", "local APIServices may not have a caBundle")
    if spec.insecureSkipTLSVerify and spec.caBundle:
        yield invalid(path / "insecureSkipTLSVerify", True, "may not be true if caBundle is present")
