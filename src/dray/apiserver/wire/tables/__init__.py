"""Server-side printing: what `kubectl get` shows, as a Table of meta.k8s.io/v1.

Takes the typed objects that the cache holds and the current time; gives a tree that msgspec encodes, structs inside
included. Left out: which requests want a table, and how the answer is written.
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
    """What prints the objects of a resource."""
    if resource.custom is not None:
        return custom.printer(resource.custom.versions[version or resource.stored])
    return Printer(resource.columns, resource.view, resource.row_conditions)


def columns(prints: Printer) -> list[dict[str, Any]]:
    """The column definitions of a kind."""
    return [{name: getattr(column, name) for name in _DEFINED} for column in prints.columns]


def include_policy(text: str) -> str:
    """The `includeObject` of a request."""
    if text and text not in INCLUDE:
        raise BadRequest(f"includeObject: Invalid value: must be one of {', '.join(INCLUDE)}, or empty, not {text!r}")
    return text or "Metadata"


def head(prints: Printer, metadata: dict[str, Any], header: bool = True) -> dict[str, Any]:
    """A Table without its rows.

    `metadata` is the list's, or for one object its resourceVersion. `header=False` leaves the column definitions out, as
    in all events of a watch but the first.
    """
    definitions = columns(prints) if header else None
    return {"kind": "Table", "apiVersion": META_V1, "metadata": metadata, "columnDefinitions": definitions}


def row(prints: Printer, obj: Wire, now: float, include: str = "Metadata", full: Any = None) -> dict[str, Any]:
    """The row of an object; `now` in seconds since the epoch.

    `full` is what the row carries for `include="Object"`: a tree or `msgspec.Raw` in the version asked for; without it
    the typed object itself.
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
    """The object's PartialObjectMetadata."""
    metadata = obj.metadata  # type: ignore[attr-defined]  # every kind has it, their common type does not say so
    return {"kind": "PartialObjectMetadata", "apiVersion": META_V1, "metadata": metadata}


def partial_list(metadata: dict[str, Any]) -> dict[str, Any]:
    """A PartialObjectMetadataList without its items."""
    return {"kind": "PartialObjectMetadataList", "apiVersion": META_V1, "metadata": metadata}
