"""Schemas of custom resources in OpenAPI documents: what their definition says, and the metadata that all objects have.

Version 2 has no words for choices between schemas and for values that may be null; there they are left out, as
Kubernetes leaves them out, so that old clients still check and explain the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api.custom.kinds import schema_of
from dray.api.resources import Resource
from dray.apiserver.wire.openapi.paths import document_name
from dray.apiserver.wire.openapi.schemas import GVK, LIST_META, META, Dialect, Json, reference

_ONLY_V3 = ("anyOf", "oneOf", "not", "nullable")
_NESTED = ("properties", "patternProperties")


def custom_definitions(resource: Resource, version: str, dialect: Dialect) -> Iterator[tuple[str, Json]]:
    """The schema of a kind, and of its list."""
    assert resource.custom is not None
    name = document_name(resource, version)
    tree = schema_of(resource.custom.versions[version].spec)
    shown = _old(tree) if dialect is Dialect.V2 else dict(tree)
    head = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": reference(f"{META}ObjectMeta", dialect, default={}),
    }
    shown["properties"] = {**shown.get("properties", {}), **head}
    kind = {"group": resource.group, "version": version}
    yield name, {**shown, GVK: [{**kind, "kind": resource.kind}]}
    yield (
        f"{name}List",
        {
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "items": {"type": "array", "items": reference(name, dialect)},
                "kind": {"type": "string"},
                "metadata": reference(LIST_META, dialect, default={}),
            },
            GVK: [{**kind, "kind": resource.custom.list_kind}],
        },
    )


def _old(tree: Json) -> Json:
    """A schema as version 2 can say it."""
    shown: Json = {}
    for key, value in tree.items():
        if key in _ONLY_V3:
            continue
        if key in _NESTED:
            shown[key] = {name: _old(part) for name, part in value.items()}
        else:
            shown[key] = _old_part(key, value)
    if tree.get("x-kubernetes-int-or-string"):
        shown.pop("type", None)
    return shown


def _old_part(key: str, value: Any) -> Any:
    if key in ("items", "additionalProperties") and isinstance(value, dict):
        return _old(value)
    return [_old(part) for part in value] if key == "allOf" else value
