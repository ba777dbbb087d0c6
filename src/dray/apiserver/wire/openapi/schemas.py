"""Schemas of messages in OpenAPI v2 or v3.

The versions differ in the location of definitions, in whether `$ref` may have siblings, and in the form of values
with two types. Descriptions exist only for the kinds of devices and groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeAlias

from dray.api import schema
from dray.api.descriptions import describe

Json: TypeAlias = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
LIST_META = f"{META}ListMeta"
PATCH = f"{META}Patch"
GVK = "x-kubernetes-group-version-kind"


class Dialect(Enum):
    """A version of OpenAPI; the value is the location of its definitions."""

    V2 = "#/definitions/"
    V3 = "#/components/schemas/"


_PLAIN: dict[str, Json] = {
    "str": {"type": "string"},
    "i32": {"type": "integer", "format": "int32"},
    "i64": {"type": "integer", "format": "int64"},
    "num": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
}
# Types that JSON writes as a single value. They are named definitions in the documents.
_NAMED = {
    "time": f"{META}Time",
    "microtime": f"{META}MicroTime",
    "quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "intstr": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "raw": "io.k8s.apimachinery.pkg.runtime.RawExtension",
}
_NAMED_V2: dict[str, Json] = {
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"type": "string"},
    "intstr": {"type": "string", "format": "int-or-string"},
    "raw": {"type": "object"},
}
_NAMED_V3: dict[str, Json] = _NAMED_V2 | {
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intstr": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
}


def definitions(messages: Iterable[str], listed: Iterable[str], dialect: Dialect) -> Json:
    """Return the definitions of messages, of lists of kinds, and of everything that they contain, by name."""
    found: Json = {PATCH: {"type": "object"}}
    named = _NAMED_V2 if dialect is Dialect.V2 else _NAMED_V3
    waiting = [*messages, LIST_META]
    for kind in listed:
        found[f"{kind}List"] = list_definition(kind, dialect)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        if name in schema.UNIONS:
            found[name] = {}  # anything
            continue
        message = schema.message(name)
        found[name] = definition(name, message, dialect)
        for field in message.fields.values():
            bare = field.type.lstrip("[{")
            if bare in _NAMED:
                found[_NAMED[bare]] = named[bare]
            elif field.reference:
                waiting.append(field.reference)
    return dict(sorted(found.items()))


def definition(name: str, message: schema.Message, dialect: Dialect) -> Json:
    """Return the OpenAPI schema of one message, with its description and kinds."""
    result: Json = {"type": "object"}
    if text := describe(name):
        result["description"] = text
    properties = {key: _property(field, dialect, describe(name, key)) for key, field in sorted(message.fields.items())}
    if name == schema.SCHEMA:  # a default, example or enumerated value can have any type
        properties |= {"default": {}, "example": {}, "enum": {"type": "array", "items": {}}}
    if properties:
        result["properties"] = properties
    if required := sorted(key for key, field in message.fields.items() if field.required):
        result["required"] = required
    if message.map_type:
        result["x-kubernetes-map-type"] = message.map_type
    if message.kinds:
        result[GVK] = [{"group": g, "kind": k, "version": v} for g, v, k in message.kinds]
    return result


def list_definition(kind: str, dialect: Dialect) -> Json:
    """Return the OpenAPI schema of a list of objects of a kind."""
    ((group, version, name),) = schema.message(kind).kinds
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": reference(kind, dialect, default={})},
            "kind": {"type": "string"},
            "metadata": reference(LIST_META, dialect, default={}),
        },
        GVK: [{"group": group, "kind": f"{name}List", "version": version}],
    }


def reference(name: str, dialect: Dialect, **siblings: Any) -> Json:
    """Return a reference to a definition. Version 3 wraps it in allOf if there are siblings."""
    link = {"$ref": dialect.value + name}
    if not siblings or dialect is Dialect.V2:
        return {**siblings, **link}
    return {**siblings, "allOf": [link]}


def _property(field: schema.Field, dialect: Dialect, description: str) -> Json:
    """Return the OpenAPI schema of a field, with its list, map and patch attributes."""
    siblings: Json = {"description": description} if description else {}
    if field.default is not None:
        siblings["default"] = field.default
    result = _value(field.type, dialect, siblings)
    for key, value in (
        ("x-kubernetes-list-type", field.list_type),
        ("x-kubernetes-list-map-keys", list(field.keys)),
        ("x-kubernetes-map-type", field.map_type),
        ("x-kubernetes-patch-strategy", field.patch_strategy),
        ("x-kubernetes-patch-merge-key", field.patch_key),
    ):
        if value:
            result[key] = value
    return result


def _value(type_: str, dialect: Dialect, siblings: Json) -> Json:
    """Return the schema of a type with sibling attributes."""
    if type_.startswith("["):
        return {**siblings, "type": "array", "items": _value(type_[1:], dialect, _element_default(type_[1:]))}
    if type_.startswith("{"):
        inner = _value(type_[1:], dialect, _element_default(type_[1:]))
        return {**siblings, "type": "object", "additionalProperties": inner}
    if type_ in _PLAIN:
        return {**siblings, **_PLAIN[type_]}
    name = type_[4:] if type_.startswith("ref:") else _NAMED[type_]
    return reference(name, dialect, **siblings)


def _element_default(type_: str) -> Json:
    """Return the default of list and map elements: their zero value, as Kubernetes documents it."""
    if type_.startswith("ref:"):
        return {"default": {}}
    return {"default": {"str": "", "i32": 0, "i64": 0, "bool": False}[type_]} if type_ in _PLAIN_ZEROS else {}


_PLAIN_ZEROS = ("str", "i32", "i64", "bool")
