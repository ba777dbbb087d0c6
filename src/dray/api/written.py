"""Objects in the form in which Kubernetes prints them in error messages."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from dray.api import schema
from dray.api.wire import Wire

_INITIALS = {"api": "API", "cel": "CEL", "ip": "IP", "uid": "UID", "url": "URL", "x": "X"}

_COUNTED = ("RollingUpdateDaemonSet", "RollingUpdateDeployment")  # structs in which an absent count is 0


def as_go(value: Any) -> Any:
    """Return a struct as Kubernetes prints internal types: all fields, with Go names, in the order of their numbers.

    Other values are returned unchanged.
    """
    if not isinstance(value, Wire):
        return [as_go(item) for item in value] if isinstance(value, tuple) else value
    module = type(value).__module__.rpartition(".")[2]
    if module == "meta":  # the meta group has no internal types
        return as_written(value)
    fields = schema.message(_message_of(module, type(value).__name__)).fields
    tree: dict[str, Any] = {}
    for name in sorted(filter(lambda name: fields[name].number, fields), key=lambda name: _position(fields[name])):
        if name == "metadata":
            tree |= msgspec.to_builtins(value.metadata)  # type: ignore[attr-defined]  # embedded in the Go struct
            continue
        first = re.match("[a-z]+", name).group()  # type: ignore[union-attr]  # every name starts with lower case
        go_name = (_INITIALS.get(first) or first.capitalize()) + name[len(first) :]
        found = as_go(getattr(value, name))
        is_count = found is None and fields[name].type == "intstr" and type(value).__name__ in _COUNTED
        tree[go_name] = 0 if is_count else None if found in ([], {}) else found
    return msgspec.Raw(msgspec.json.encode(tree))


def _position(field: schema.Field) -> int:
    """Return the sort key of a field: its number, or that of the embedded struct that contains the field."""
    return field.via[0] if field.via else field.number


def as_written(value: Any) -> Any:
    """Return a struct as JSON with fields in the order of their protobuf numbers, as Kubernetes writes it."""
    if not isinstance(value, Wire):
        return value
    module = type(value).__module__.rpartition(".")[2]
    tree = _ordered(_message_of(module, type(value).__name__), msgspec.to_builtins(value))
    return msgspec.Raw(msgspec.json.encode(tree))


def _ordered(message: str, tree: Any) -> Any:
    if not isinstance(tree, dict) or not message:
        return [_ordered(message, item) for item in tree] if isinstance(tree, (list, tuple)) else tree
    fields = schema.message(message).fields
    names = sorted(tree, key=lambda name: fields[name].number if name in fields else 0)
    return {name: _ordered(fields[name].reference if name in fields else "", tree[name]) for name in names}


@cache
def _message_of(module: str, name: str) -> str:
    """Return the schema message of a generated class, from the first version that has it; empty if unknown."""
    groups = [f"io.k8s.api.{module}.{version}." for version in ("v1", "v1beta1", "v1alpha3")]
    return next((group + name for group in (*groups, schema.EXTENSIONS) if group + name in schema.table()), "")
