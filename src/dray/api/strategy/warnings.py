"""Warnings to clients about objects that are accepted."""

from __future__ import annotations

from typing import Any

from dray.api.kind import UNUSED
from dray.api.names import is_owned_finalizer
from dray.api.quoting import quote
from dray.api.resources import Resource
from dray.api.wire import Wire


def _finalizers(object_: Any, old: Any) -> list[str]:
    """Return a warning per added finalizer without a domain and path, since such names can collide."""
    before = old.metadata.finalizers if old is not None else ()
    added = sorted(set(object_.metadata.finalizers) - set(before))
    text = "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts"
    return [
        f"metadata.finalizers: {quote(finalizer)}: {text} with other finalizer writers"
        for finalizer in added
        if not is_owned_finalizer(finalizer)
    ]


def unused(resource: Resource) -> list[str]:
    """Return the warning that a new object of this kind has no effect; an empty list if the kind is used."""
    if not resource.inert:
        return []
    return [f"{resource.api_version()} {resource.kind} {UNUSED}"]


def warnings(resource: Resource, object_: Wire, old: Wire | None = None) -> list[str]:
    """Return the warnings about a written object; `old` is the object that it replaces, or None."""
    if resource.custom is not None:
        return _finalizers(object_, old)
    return [] if resource.warnings is None else list(resource.warnings(object_, old))
