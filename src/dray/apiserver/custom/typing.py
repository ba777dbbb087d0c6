"""Custom schemas in CEL: types, values of these types, and their maximum sizes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from dray.api.custom.structure import ANYTHING, SchemaNode, compiled
from dray.api.names import CEL_RESERVED
from dray.cel.library.times import parse_duration, parse_timestamp
from dray.cel.ranges import Range
from dray.cel.sizes import SizePath
from dray.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Kind, Type, list_of, map_of
from dray.cel.values import MergedList, Value

REQUEST_BYTES = 3 * 1024 * 1024  # maximum size of an object, and so of any value in it
_PLAIN = {"boolean": BOOL, "integer": INT, "number": DOUBLE, "string": STRING}
_FORMATS = {"byte": BYTES, "date": TIMESTAMP, "date-time": TIMESTAMP, "duration": DURATION}
_FORMAT_LENGTHS = {"date": 10, "date-time": 35, "duration": 41}
_SPECIAL = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPES = re.compile("|".join(map(re.escape, _SPECIAL)))
_TYPE_FIELDS = {"apiVersion": STRING, "kind": STRING}
_TEXT = {"type": "string"}
_METADATA = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_RESOURCE = compiled({"type": "object", "properties": {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}})

FieldsByType = dict[str, Mapping[str, Type]]


def escaped(name: str) -> str:
    """Return a field name as CEL expressions write it, for example `a__dash__b` for `a-b`."""
    if name in CEL_RESERVED:
        return f"__{name}__"
    return _ESCAPES.sub(lambda match: _SPECIAL[match[0]], name)


def declared(node: SchemaNode, root: bool) -> tuple[Type, FieldsByType]:
    """Return the CEL type of a schema node, and the fields of all object types in it.

    `root` says whether the node is the whole object.
    """
    fields: FieldsByType = {}
    return _typed(node, "self", fields, root), fields


def _typed(node: SchemaNode, name: str, fields: FieldsByType, root: bool = False) -> Type:
    """Return the CEL type of a schema node, and add the fields of object types to `fields`.

    `name` is the name of an object type. `root` says whether the node is the whole object. Returns DYN for integers
    or strings, and if the schema does not give the type.
    """
    if node.int_or_string:
        return DYN
    if node.type == "array":
        return list_of(_typed(node.items or ANYTHING, f"{name}.@items", fields))
    if node.type == "object" or root:
        if node.additional is not None:
            value = DYN if node.additional is ANYTHING else _typed(node.additional, f"{name}.@values", fields)
            return map_of(STRING, value)
        members = {escaped(key): _typed(part, f"{name}.{key}", fields) for key, part in node.properties.items()}
        if root or node.embedded:
            fields[f"{name}.metadata"] = {"name": STRING, "generateName": STRING}
            members |= {**_TYPE_FIELDS, "metadata": Type(Kind.STRUCT, f"{name}.metadata")}
        fields[name] = members
        return Type(Kind.STRUCT, name)
    if node.type == "string":
        return _FORMATS.get(node.schema.get("format", ""), STRING)
    return _PLAIN.get(node.type, DYN)


class Convert:
    """Converts values to the CEL types of their schema. Values that do not fit stay unchanged."""

    def __init__(self, root: bool) -> None:
        self._root = root

    def value(self, node: SchemaNode, value: Any) -> Value:
        """Return a JSON value as a CEL value of the type that its schema declares."""
        return self._of(node, value, self._root)

    def _of(self, node: SchemaNode, value: Any, root: bool = False) -> Value:
        """Return a JSON value as a CEL value by its schema node, unchanged if it does not fit.

        With `root`, the members apiVersion, kind and metadata stay as they are.
        """
        if isinstance(value, dict):
            return self._object(node, value, root)
        if isinstance(value, list):
            return self._list(node, value)
        if isinstance(value, str) and node.type == "string":
            return _formatted(node.schema.get("format", ""), value)
        if node.type == "number" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if node.type == "integer" and isinstance(value, float):
            return int(value)
        return value

    def _list(self, node: SchemaNode, value: list[Any]) -> Value:
        """Return a list with converted items. Lists of type set or map compare without order."""
        if node.items is None:
            return value
        found: list[Value] = [self._of(node.items, item) for item in value]
        if node.list_type not in ("set", "map"):
            return found
        return MergedList(found, tuple(map(escaped, node.map_keys)))

    def _object(self, node: SchemaNode, value: dict[str, Any], root: bool) -> Value:
        """Return an object with converted members and escaped field names. Members without schema are omitted."""
        if node.additional is not None:
            return {key: self._of(node.additional, item) for key, item in value.items()}
        found: dict[str, Value] = {}
        for key, item in value.items():
            part = node.properties.get(key)
            if (root or node.embedded) and key in ("apiVersion", "kind", "metadata"):
                found[key] = item
            elif part is not None:
                found[escaped(key)] = self._of(part, item)
        return found


def _formatted(format_: str, text: str) -> Value:
    """Return a string as the CEL value of its format, or unchanged if it does not fit."""
    parsed: Value | None = None
    if format_ == "date-time":
        parsed = parse_timestamp(text)
    elif format_ == "date":
        parsed = parse_timestamp(f"{text}T00:00:00Z")
    elif format_ == "duration":
        parsed = parse_duration(text)
    elif format_ == "byte":
        try:
            parsed = base64.b64decode(text, validate=True)
        except binascii.Error:
            parsed = None
    return text if parsed is None else parsed


# Sizes


def least_bytes(node: SchemaNode) -> int:
    """Return the minimum number of bytes of a value in a JSON request; 1 for numbers and values without a type."""
    if node.type == "object":
        members = (
            len(name) + 4 + least_bytes(node.properties[name]) for name in node.required if name in node.properties
        )
        return 2 + sum(members)
    return {"boolean": 4, "string": 2, "array": 2}.get(node.type, 1)


def cardinality(node: SchemaNode) -> int:
    """Return the maximum number of elements in a list or map; 1 for other values.

    Without maxItems or maxProperties, it is the number that fits into the largest request.
    """
    schema = node.schema
    if node.items is not None:
        most: int | None = schema.get("maxItems")
        return most if most is not None else (REQUEST_BYTES - 2) // (least_bytes(node.items) + 1)
    if node.additional is not None:
        most = schema.get("maxProperties")
        return most if most is not None else (REQUEST_BYTES - 2) // (least_bytes(node.additional) + 6)
    return 1


class SchemaSizes:
    """Maximum sizes of the parts of a value, for cost estimates.

    The only other names in expressions are those of types (`type(self) == int`); as in Kubernetes, they count like
    the value itself.
    """

    def __init__(self, node: SchemaNode, root: bool) -> None:
        self._node = node
        self._root = root

    def size(self, path: SizePath) -> Range | None:
        """Return the size range of the value at a path, or None if it is not part of the value.

        The unit is elements, bytes of text or fields. The lower end is always 0.
        """
        if not path or path[0].startswith("@"):  # an element of a value outside the object
            return None
        node: SchemaNode | None = self._node
        standard = _standard(self._node, self._root)
        for name in path[1:]:
            if name == "@keys":
                return Range(0, 0)  # Kubernetes estimates map keys as empty strings
            node = _below(node, name) if node is not None else None
            standard = (standard.properties.get(name) if standard is not None else None) or _standard(node)
        found = node or standard
        return Range(0, _most(found)) if found is not None else None


def _standard(node: SchemaNode | None, root: bool = False) -> SchemaNode | None:
    """Return the schema of apiVersion, kind and metadata if the node is a whole resource, else None."""
    return _RESOURCE if root or (node is not None and node.embedded) else None


def _below(node: SchemaNode, name: str) -> SchemaNode | None:
    """Return the schema of a member or element, or None if the schema does not describe it.

    `name` is "@items", "@values" or a field name as CEL expressions write it.
    """
    if name in ("@items", "@values"):
        return node.items or node.additional
    return next((part for key, part in node.properties.items() if escaped(key) == name), node.additional)


def _most(node: SchemaNode) -> int:
    """Return the maximum size of a value: elements, characters in bytes, or fields."""
    schema = node.schema
    if node.items is not None or node.additional is not None:
        return cardinality(node)
    if node.type == "string" or node.int_or_string:
        most: int | None = schema.get("maxLength")
        if most is not None:
            return most * 4 if not schema.get("format") else most
        if enum := schema.get("enum"):
            return max(len(str(option)) for option in enum)
        return _FORMAT_LENGTHS.get(schema.get("format", ""), REQUEST_BYTES - 2)
    if node.type == "object":
        return len(node.properties)
    return 1
