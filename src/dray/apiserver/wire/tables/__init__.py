"""Server-side printing: the Table (meta.k8s.io/v1) that `kubectl get` shows.

Takes typed objects from the cache and the current time; returns a tree for msgspec, which may contain structs.
"""

from __future__ import annotations

from typing import Any

from dray.api.errors import BadRequest
from dray.api.resources import Resource
from dray.api.wire import Wire
from dray.apiserver.wire.tables import custom
from dray.apiserver.wire.tables.printer import Printer

META_V1 = "meta.k8s.io/v1"
INCLUDE = ("Metadata", "None", "Object")
_DEFINED = ("name", "type", "format", "description", "priority")


def printer(resource: Resource, version: str = "") -> Printer:
    """Return the printer of a resource's objects: of its definition for a custom resource in this version."""
    if resource.custom is not None:
        return custom.printer(resource.custom.versions[version or resource.stored])
    return Printer(resource.columns, resource.view, resource.row_conditions)


def columns(prints: Printer) -> list[dict[str, Any]]:
    """Return the columnDefinitions of a Table."""
    return [{name: getattr(column, name) for name in _DEFINED} for column in prints.columns]


def include_policy(text: str) -> str:
    """Return the `includeObject` of a request; "Metadata" if empty. Raises BadRequest for an unknown value."""
    if text and text not in INCLUDE:
        raise BadRequest(f"includeObject: Invalid value: must be one of {', '.join(INCLUDE)}, or empty, not {text!r}")
    return text or "Metadata"


def head(prints: Printer, metadata: dict[str, Any], header: bool = True) -> dict[str, Any]:
    """Return a Table without rows.

    `metadata` is the list's metadata, or the resourceVersion of one object. `header=False` omits the column
    definitions, as in all but the first event of a watch.
    """
    definitions = columns(prints) if header else None
    return {"kind": "Table", "apiVersion": META_V1, "metadata": metadata, "columnDefinitions": definitions}


def row(prints: Printer, obj: Wire, now: float, include: str = "Metadata", full: Any = None) -> dict[str, Any]:
    """Return the row of an object; `now` is in seconds since the epoch.

    `full` is the object in the row for `include="Object"`: a tree or `msgspec.Raw` in the requested version. Without
    it, the typed object is used.
    """
    answer: dict[str, Any] = {"cells": prints.cells(obj, now)}
    if prints.conditions and (conditions := prints.conditions(obj)):
        answer["conditions"] = conditions
    if include == "Metadata":
        answer["object"] = partial(obj)
    else:
        answer["object"] = (obj if full is None else full) if include == "Object" else None
    return answer


def partial(obj: Wire) -> dict[str, Any]:
    """Return a PartialObjectMetadata with the object's metadata."""
    metadata = obj.metadata  # type: ignore[attr-defined]  # every kind has metadata; their common type lacks it
    return {"kind": "PartialObjectMetadata", "apiVersion": META_V1, "metadata": metadata}


def partial_list(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a PartialObjectMetadataList without items."""
    return {"kind": "PartialObjectMetadataList", "apiVersion": META_V1, "metadata": metadata}
