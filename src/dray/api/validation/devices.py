"""Rules of resource.k8s.io shared by several kinds: names, selectors, configuration, taints and tolerations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from dray.api import names
from dray.api.constraints.formats import DRIVER_MAX, POOL_MAX, at_most_bytes, identifier
from dray.api.errors import duplicate, forbidden, internal, invalid, required, too_long
from dray.api.paths import Path
from dray.api.remembered import remembered
from dray.api.rules import Errors, each, named, unique, within
from dray.api.types import resource

if TYPE_CHECKING:
    from dray.api.validation.context import Complaint, Context

LIST_MAX = 32  # maximum number of requests, constraints, configurations, selectors and results
SELECTOR_MAX = 10 * 1024
DERIVED_COST_MAX = 1_000_000  # maximum estimated cost of all derived attributes of a request together
PARAMETERS_MAX = 10 * 1024
BINDING_CONDITIONS_MAX = 4


# Names


def driver_name(name: str, path: Path) -> Errors:
    """Yield errors in the name of a driver in its own slices."""
    if not name:
        yield required(path)
        return
    yield from at_most_bytes(name, DRIVER_MAX, path)
    for text in names.subdomain(name.lower()):
        yield invalid(path, name, text)


def pool_name(name: str, path: Path) -> Errors:
    """Yield errors in the name of a pool in a slice: subdomains separated by slashes."""
    if not name:
        yield required(path)
        return
    yield from at_most_bytes(name, POOL_MAX, path)
    for part in name.split("/"):
        yield from named(part, path, names.subdomain)


@remembered(4096)
def is_qualified_name(name: str) -> bool:
    """Return whether a name is a valid qualified name. Cached, because all devices of a driver use the same names."""
    return not any(qualified_name(name, Path("")))


def qualified_name(name: str, path: Path) -> Errors:
    """Yield errors in the name of an attribute or capacity: an identifier with an optional domain."""
    parts = name.split("/")
    if len(parts) > 2:
        yield invalid(path, name, "must not contain more than one slash")
        return
    if len(parts) == 2:
        if parts[0]:
            yield from driver_name(parts[0], path)
        else:
            yield invalid(path, "", "the domain must not be empty")
        if not parts[1]:
            yield invalid(path, "", "the name must not be empty")
            return
    yield from identifier(parts[-1], path)


# Selectors and configuration


def selectors(items: Sequence[resource.DeviceSelector], path: Path, context: Context, stored: bool = False) -> Errors:
    """Yield errors in selectors of a request or class. Expressions that are already `stored` count as valid.

    Yields nothing if there are too many selectors; a schema constraint reports that.
    """

    def check(selector: resource.DeviceSelector, here: Path) -> Errors:
        if selector.cel is None:
            yield required(here / "cel")
        elif not stored:
            yield from expression(selector.cel.expression, here / "cel" / "expression", context)

    yield from each(within(items, LIST_MAX), path, check)


def expression(text: str, path: Path, context: Context) -> Errors:
    """Yield an error if a CEL selector is too long or does not compile.

    A selector that is too long is not compiled.
    """
    if len(text.encode()) > SELECTOR_MAX:
        yield too_long(path, SELECTOR_MAX)
        return
    complaint = context.check_selector(text)
    if complaint is not None:
        yield from complained(complaint, text, path)


def complained(complaint: Complaint, text: str, path: Path) -> Errors:
    """Yield the error of a field for a complaint about its expression."""
    if complaint.reason == "Forbidden":
        yield forbidden(path, complaint.text)
    elif complaint.reason == "InternalError":
        yield internal(path, complaint.text)
    else:
        yield invalid(path, text, complaint.text)


def opaque(config: resource.OpaqueDeviceConfiguration | None, path: Path, stored: bool = False) -> Errors:
    """Yield errors in the configuration of a driver. Only its size and type are checked."""
    if config is None:
        yield required(path / "opaque")
        return
    yield from raw_object(config.parameters, path / "opaque" / "parameters", PARAMETERS_MAX, stored)


def raw_object(value: object, path: Path, limit: int, stored: bool = False) -> Errors:
    """Yield an error if the value is missing, not a JSON object, or (unless `stored`) above `limit` bytes of JSON."""
    if value is None:
        yield required(path)
    elif not stored and len(msgspec.json.encode(value)) > limit:
        yield too_long(path, limit)
    elif not isinstance(value, dict):
        yield invalid(path, "<value omitted>", "must be a valid JSON object")


# Taints and tolerations


def taint(value: resource.DeviceTaint, path: Path) -> Errors:
    yield from named(value.key, path / "key", names.qualified_name)
    if value.value:
        yield from named(value.value, path / "value", names.label_value)


def toleration(value: resource.DeviceToleration, path: Path) -> Errors:
    if value.operator == "Exists":
        if value.value:
            yield invalid(path / "value", value.value, "must be empty for operator `Exists`")
    elif value.operator == "Equal":
        yield from named(value.value, path / "value", names.label_value)
    elif not value.operator:
        yield required(path / "operator")


def tolerations(items: Sequence[resource.DeviceToleration], path: Path) -> Errors:
    yield from each(items, path, toleration)


# Binding conditions


def binding_conditions(ready: tuple[str, ...], failed: tuple[str, ...], path: Path) -> Errors:
    """Yield errors in the binding conditions and binding failure conditions of a device."""
    ready_path, failed_path = path / "bindingConditions", path / "bindingFailureConditions"

    def label_name(name: str, here: Path) -> Errors:
        yield from named(name, here, names.qualified_name)

    yield from each(within(ready, BINDING_CONDITIONS_MAX), ready_path, label_name)
    yield from each(within(failed, BINDING_CONDITIONS_MAX), failed_path, label_name)
    yield from unique(ready, ready_path, str)
    seen: set[str] = set()
    for index, name in enumerate(failed):
        if name in seen:
            yield duplicate(failed_path / index, name)
        seen.add(name)
        if name in ready:
            text = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(failed_path / index, name, text)
    if failed and not ready:
        text = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(ready_path, None, text)
    if ready and not failed:
        text = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(failed_path, None, text)


def skipped_operations(items: tuple[str, ...], path: Path) -> Errors:
    """Yield an error if NodePrepareResources is skipped but NodeUnprepareResources is not."""
    if "NodePrepareResources" in items and not {"NodeUnprepareResources", "*"} & set(items):
        text = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        yield invalid(path, list(items), text)
