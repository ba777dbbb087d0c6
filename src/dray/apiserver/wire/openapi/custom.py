"""Schemas of custom resources in OpenAPI documents: the definition's schema, and the metadata of all objects.

Version 2 cannot express choices between schemas, nullable values, and objects with unknown fields. As in Kubernetes,
parts that kubectl would wrongly reject are omitted there, so that old clients can still check and explain the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.custom.kinds import schema_of
from dray.api.descriptions import describe_kind
from dray.api.resources import Resource
from dray.apiserver.wire.openapi.paths import document_name
from dray.apiserver.wire.openapi.schemas import GVK, LIST_META, META, Dialect, Json, reference

_ONLY_V3 = ("anyOf", "oneOf", "not", "nullable")
_NESTED = ("properties", "patternProperties")
_PRESERVES = "x-kubernetes-preserve-unknown-fields"


def custom_definitions(resource: Resource, version: str, dialect: Dialect) -> Iterator[tuple[str, Json]]:
    """Yield two pairs of name and schema: for a kind and for its list."""
    assert resource.custom is not None
    name = document_name(resource, version)
    tree = schema_of(resource.custom.versions[version].spec)
    if dialect is Dialect.V2 and tree.get(_PRESERVES):
        shown: Json = {"type": "object"}
    else:
        shown = _shown(tree, dialect)
        shown["properties"] = {**shown.get("properties", {}), **_head(dialect)}
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


def _head(dialect: Dialect) -> Json:
    """Return the properties apiVersion, kind and metadata, for objects and embedded objects."""
    text = {name: describe_kind(name) for name in ("apiVersion", "kind", "metadata")}
    return {
        "apiVersion": {"type": "string", "description": text["apiVersion"]},
        "kind": {"type": "string", "description": text["kind"]},
        "metadata": reference(f"{META}ObjectMeta", dialect, description=text["metadata"], default={}),
    }


def _shown(tree: Json, dialect: Dialect) -> Json:
    """Return a definition's schema without the parts that a version of OpenAPI cannot express."""
    is_old = dialect is Dialect.V2
    is_open = is_old and bool(tree.get(_PRESERVES) or tree.get("nullable"))
    shown: Json = {}
    for key, value in tree.items():
        if (is_old and key in _ONLY_V3) or (is_open and key in ("items", "properties")):
            continue
        if key in _NESTED:
            shown[key] = {name: _shown(part, dialect) for name, part in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            shown[key] = _shown(value, dialect)
        else:
            shown[key] = [_shown(part, dialect) for part in value] if key == "allOf" else value
    if is_old:
        _widen(tree, shown)
    if tree.get("x-kubernetes-embedded-resource") and not (is_old and tree.get(_PRESERVES)):
        shown["properties"] = {**shown.get("properties", {}), **_head(dialect)}
        shown["required"] = list(dict.fromkeys((*shown.get("required", ()), "kind", "apiVersion")))
    return shown


def _widen(tree: Json, shown: Json) -> None:
    """Remove what version 2 would state too narrowly: types of values with several types, and nullable values."""
    if tree.get("x-kubernetes-int-or-string") or tree.get("nullable"):
        shown.pop("type", None)
    properties = tree.get("properties", {})
    if "required" in shown:
        shown["required"] = [name for name in shown["required"] if not properties.get(name, {}).get("nullable")]
        if not shown["required"]:
            del shown["required"]
