"""What clients are told about objects that are accepted all the same."""

from __future__ import annotations

from typing import Any

from dray.api.kind import UNUSED
from dray.api.names import is_owned_finalizer
from dray.api.quoting import quote
from dray.api.resources import Resource
from dray.api.wire import Wire


def _finalizers(object_: Any, old: Any) -> list[str]:
    """Finalizers of custom objects may be called anything, and two of a name would be taken for one."""
    before = old.metadata.finalizers if old is not None else ()
    added = sorted(set(object_.metadata.finalizers) - set(before))
    text = "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts"
    return [
        f"metadata.finalizers: {quote(finalizer)}: {text} with other finalizer writers"
        for finalizer in added
        if not is_owned_finalizer(finalizer)
    ]


def unused(resource: Resource) -> list[str]:
    """What the author of a new object must know: that nothing will come of it."""
    if not resource.inert:
        return []
    return [f"{resource.api_version()} {resource.kind} {UNUSED}"]


def warnings(resource: Resource, object_: Wire, old: Wire | None = None) -> list[str]:
    """The warnings about a written object; `old` is the one that it replaces."""
    if resource.custom is not None:
        return _finalizers(object_, old)
    return [] if resource.warnings is None else list(resource.warnings(object_, old))
