"""Kubernetes' protobuf encoding: four magic bytes, an envelope with the kind, and the object; also the frames of
a watch.

Go drivers and the Kubernetes tests use it. Input is converted to the same JSON trees as JSON bodies, and output
is created from such trees, so all other code handles one form. Zero values that Go writes and JSON omits are
omitted, unless the field is a pointer. Fields without a protobuf number (defined only in KEPs), and kinds of such
versions, are available only in JSON.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from math import isfinite
from typing import Any, TypeAlias

import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage

from dray.api import schema
from dray.api.errors import BadRequest, NotAcceptable, TooLarge, UnsupportedMediaType
from dray.api.protobuf_types import META, PARTIAL, SCHEMA, VIA, field_name, list_name, message_class, messages
from dray.api.wire import Tree

MAGIC = b"k8s\0"

DecodeField: TypeAlias = Callable[[Any], Any]  # converts a protobuf value to a JSON value
Shape: TypeAlias = Callable[[Any], Any]  # converts a JSON value to an argument of a message constructor

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON_ONLY = ("resource.k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha1")  # versions without protobuf numbers
_EXACT = 2.0**53  # up to here, floats represent every integer exactly
_META_KINDS = ("DeleteOptions", "Status")  # sent with any group and version


def decode(body: bytes, api_version: str = "", kind: str = "", most: int = 0) -> Tree:
    """Decode a protobuf body into a JSON tree. `api_version` and `kind` apply if the body does not name them.

    With `most`, a body with more values is rejected before the tree is created, because creating a tree takes a
    hundred times as long as parsing the bytes. Raises TooLarge then, UnsupportedMediaType for a version without
    protobuf form, and BadRequest for any other unusable body.
    """
    if not body.startswith(MAGIC):
        raise BadRequest("the body is not Kubernetes protobuf: it does not start with the four bytes 'k8s\\0'")
    envelope: Any = message_class("Unknown")()
    _parse(envelope, body[len(MAGIC) :], "the envelope")
    api_version = envelope.typeMeta.apiVersion or api_version
    kind = envelope.typeMeta.kind or kind
    if envelope.contentEncoding:
        raise BadRequest(f"content encoding {envelope.contentEncoding!r} of a protobuf body is not supported")
    name = _message_name(api_version, kind)
    if not has_form(api_version):
        raise UnsupportedMediaType(f"{api_version} has no protobuf form; send application/json")
    if name is None:
        raise BadRequest(f'no kind "{kind}" is registered for version "{api_version}" in protobuf')
    tree = decode_message(name, envelope.raw, most)
    return {"apiVersion": api_version, "kind": kind, **tree}


def decode_message(name: str, data: bytes, most: int = 0) -> Tree:
    """Decode one message without envelope into a JSON tree. `name` is its schema name.

    Raises BadRequest if it cannot be read, or TooLarge above `most` values (0: no limit).
    """
    message = message_class(name)()
    _parse(message, data, name.rpartition(".")[2])
    try:
        if most and len(data) > most and _values(name, message, most) > most:  # a value takes at least one byte
            raise TooLarge(f"Request entity too large: limit is {most} values")
        return _read(_plan(name), message)
    except RecursionError as error:  # nested schemas or raw JSON
        raise BadRequest(f"a protobuf field of {name.rpartition('.')[2]} is nested too deeply") from error
    except (ValueError, OverflowError, msgspec.DecodeError) as error:  # invalid times, or raw values that are not JSON
        raise BadRequest(f"a protobuf field of {name.rpartition('.')[2]} cannot be read: {error}") from error


def encode(tree: Tree) -> bytes:
    """Encode an object or list as a protobuf body with an envelope. Fields unknown to protobuf are omitted.

    Raises NotAcceptable if the kind has no protobuf form.
    """
    name = _sent_name(tree)
    parts = [tree]
    if name.endswith("List"):  # encoding the items separately gives the same bytes a third faster
        parts = [{"metadata": tree.get("metadata")}, *({"items": [item]} for item in tree.get("items") or ())]
    body = b"".join([_serialized(name, part) for part in parts])
    return envelope(tree, len(body)) + body


def encode_message(tree: Tree) -> bytes:
    """Encode an object as a protobuf message without an envelope.

    Raises NotAcceptable if the kind has no protobuf form.
    """
    return _serialized(_sent_name(tree), tree)


def encode_part(tree: Tree, item: Tree | None = None) -> bytes:
    """Encode a part of a list: the metadata in `tree`, or one item. `tree` has the kind and version of the list.

    Raises NotAcceptable if the kind has no protobuf form.
    """
    return _serialized(_sent_name(tree), {"metadata": tree.get("metadata")} if item is None else {"items": [item]})


def envelope(tree: Tree, size: int) -> bytes:
    """Return the bytes that precede an object or list of `size` bytes; `tree` has its kind and version."""
    type_meta = {"apiVersion": tree["apiVersion"], "kind": tree["kind"]}
    return MAGIC + message_class("Unknown")(typeMeta=type_meta).SerializeToString() + b"\x12" + _varint(size)


def _varint(number: int) -> bytes:
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def _sent_name(tree: Tree) -> str:
    """Return the schema name for an object or list. Raises NotAcceptable if the kind has no protobuf form."""
    api_version, kind = tree.get("apiVersion", ""), tree.get("kind", "")
    name = _message_name(api_version, kind)
    if name is None:
        raise NotAcceptable(f'{kind} of "{api_version}" has no protobuf form; ask for application/json')
    return name


def _serialized(name: str, tree: Tree) -> bytes:
    return message_class(name)(**_shape(_plan(name), tree)).SerializeToString()


def encode_event(type_: str, body: bytes) -> bytes:
    """Return a frame of a watch: its length in four bytes, and an event that contains an encoded object.

    `type_` is the type of the event, such as ADDED; `body` is the object with envelope.
    """
    event = message_class("WatchEvent")(type=type_, object={"raw": body}).SerializeToString()
    return len(event).to_bytes(4, "big") + event


def has_form(api_version: str) -> bool:
    """Return whether objects of a version (`group/version`) can be encoded in protobuf."""
    return api_version not in _JSON_ONLY


def _parse(message: ProtoMessage, data: bytes, what: str) -> None:
    """Parse bytes into a message, in place. Raises BadRequest, which names `what`, if they are invalid."""
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise BadRequest(f"{what} cannot be decoded as protobuf: {error}") from error


@cache
def _kinds() -> dict[tuple[str, str], str]:
    """Return the message names by API version and kind, including lists."""
    found: dict[tuple[str, str], str] = {}
    for name, message in schema.table().items():
        for group, version, kind in message.kinds:
            api_version = f"{group}/{version}" if group else version
            if has_form(api_version):
                found[api_version, kind] = name
                found[api_version, f"{kind}List"] = list_name(name)
    found["meta.k8s.io/v1", "PartialObjectMetadata"] = PARTIAL
    found["meta.k8s.io/v1", "PartialObjectMetadataList"] = list_name(PARTIAL)
    return found


def _message_name(api_version: str, kind: str) -> str | None:
    return META + kind if kind in _META_KINDS else _kinds().get((api_version, kind))


class _FieldPlan(msgspec.Struct, frozen=True):
    """How to convert one field. `keep` says that a zero value differs from a missing value."""

    json: str  # name of the field in JSON
    wire: str  # name of the field in protobuf
    read: DecodeField
    shape: Shape | None  # None: no conversion needed
    form: str  # "", "[" or "{"
    keep: bool


class _MessagePlan(msgspec.Struct, frozen=True):
    """How to convert the fields of one message, and of the messages that protobuf nests but JSON inlines."""

    slots: dict[str, _FieldPlan]  # keyed by JSON name
    wires: dict[str, _FieldPlan]  # keyed by protobuf name
    nested: dict[str, _MessagePlan]


@cache
def _plan(name: str) -> _MessagePlan:
    return _level(messages()[name], ())


def _level(fields: Mapping[str, schema.Field], prefix: tuple[int, ...]) -> _MessagePlan:
    """Return the plan of the fields whose nested messages (`via`) start with `prefix`."""
    depth = len(prefix)
    plan = _MessagePlan({}, {}, {})
    for name, field in fields.items():
        if not field.number or field.via[:depth] != prefix:
            continue
        if len(field.via) == depth:
            slot = plan.slots[name] = _slot(name, field)
            plan.wires[slot.wire] = slot
        elif (inner := f"{VIA}{field.via[depth]}") not in plan.nested:
            plan.nested[inner] = _level(fields, field.via[: depth + 1])
    return plan


def _slot(name: str, field: schema.Field) -> _FieldPlan:
    form = field.type[0] if field.type[0] in "[{" else ""
    element = field.element
    keep = bool(field.pointer) or element == "quantity"  # a quantity is never omitted
    read, shape = _READ.get(element, _same), _SHAPE.get(element)
    if element.startswith("ref:") and element not in _READ:
        inner = element[4:]
        read = lambda message: _read(_plan(inner), message)  # noqa: E731  # plans are created on first use
        shape = lambda tree: _shape(_plan(inner), tree)  # noqa: E731
    return _FieldPlan(name, field_name(name), read, shape, form, keep)


def _values(name: str, message: Any, most: int) -> int:
    """Return the number of values in a message. Counting stops above `most`, so larger results are not exact."""
    count, fields = 0, {field_name(member): field for member, field in messages().get(name, {}).items()}
    for descriptor, value in message.ListFields():
        field = fields.get(descriptor.name)
        repeated = descriptor.is_repeated
        count += len(value) if repeated else 1
        inner = field.reference if field else ""
        if inner == schema.SCHEMA or (descriptor.message_type and not _is_map(descriptor)):
            elements = value.values() if field and field.is_map else value if repeated else (value,)
            for element in elements:
                if count > most:
                    break
                part = _schema_message(element) if inner == schema.SCHEMA else element
                count += _values(inner, part, most - count)
        if count > most:
            break
    return count


def _is_map(descriptor: Any) -> bool:
    return bool(descriptor.message_type.GetOptions().map_entry)


def _read(plan: _MessagePlan, message: Any) -> Tree:
    tree: Tree = {}
    for descriptor, value in message.ListFields():
        name = descriptor.name
        if name in plan.nested:
            tree |= _read(plan.nested[name], value)
            continue
        slot = plan.wires[name]
        read = slot.read
        if slot.form == "[":
            tree[slot.json] = [read(element) for element in value]
        elif slot.form == "{":
            tree[slot.json] = {key: read(value[key]) for key in value}
        elif (found := read(value)) or (slot.keep and found is not None):
            tree[slot.json] = found
    return tree


def _shape(plan: _MessagePlan, tree: Tree) -> Tree:
    shaped: Tree = {}
    slots = plan.slots
    for name, value in tree.items():
        slot = slots.get(name)
        if slot is None or value is None:
            continue
        shape = slot.shape
        if shape is None:
            shaped[slot.wire] = value
        elif slot.form == "[":
            shaped[slot.wire] = [shape(element) for element in value]
        elif slot.form == "{":
            shaped[slot.wire] = {key: shape(element) for key, element in value.items()}
        else:
            shaped[slot.wire] = shape(value)
    for name, inner in plan.nested.items():
        if found := _shape(inner, tree):
            shaped[name] = found
    return shaped


def _same(value: Any) -> Any:
    return value


def _read_time(message: Any) -> str | None:
    """Return the timestamp in a message, or None if it is empty."""
    if not message.ListFields():
        return None  # Go encodes an unset time as an empty message
    moment = _EPOCH + timedelta(seconds=message.seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")


def _read_microtime(message: Any) -> str | None:
    """Return the timestamp with microseconds in a message, or None if its time is empty.

    Raises ValueError if the nanoseconds are out of range.
    """
    seconds = _read_time(message)
    if not 0 <= message.nanos < 1_000_000_000:
        raise ValueError(f"{message.nanos} nanoseconds are no part of a second")
    return seconds and f"{seconds[:-1]}.{message.nanos // 1000:06}Z"


def _shape_time(text: str) -> Tree:
    since = datetime.fromisoformat(text).astimezone(UTC) - _EPOCH
    return {"seconds": since.days * 86400 + since.seconds, "nanos": since.microseconds * 1000}


def _read_intstr(message: Any) -> int | str:
    value: int | str = message.strVal if message.type else message.intVal
    return value


def _shape_intstr(value: int | str) -> Tree:
    return {"type": 1, "strVal": value} if isinstance(value, str) else {"type": 0, "intVal": value}


def _read_raw(message: Any) -> Any:
    return msgspec.json.decode(message.raw) if message.raw else None


def _shape_bytes(text: str) -> bytes:
    """Decode base64 text. Raises BadRequest if it is invalid."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise BadRequest(f"{text!r} is not base64: {error}") from error


def _read_number(value: float) -> int | float:
    """Return a number as Go writes it in JSON: whole numbers without a fraction.

    Raises ValueError for infinity and NaN. Numbers too large to be exact stay floats.
    """
    if not isfinite(value):
        raise ValueError(f"{value} is not a JSON number")
    return int(value) if value.is_integer() and abs(value) <= _EXACT else value


def _schema_message(data: bytes) -> Any:
    message = message_class(schema.SCHEMA)()
    _parse(message, data, "JSONSchemaProps")
    return message


def _read_schema(data: bytes) -> Tree:
    return _read(_plan(schema.SCHEMA), _schema_message(data))


def _read_schemas(message: Any) -> Any:
    """Read a JSONSchemaPropsOrArray: a list of schemas or one schema."""
    if message.jSONSchemas:
        return [_read_schema(data) for data in message.jSONSchemas]
    return _read_schema(message.schema) if message.HasField("schema") else None


def _shape_schemas(value: Any) -> Tree:
    if isinstance(value, list):
        return {"jSONSchemas": [_shape_schema(tree) for tree in value]}
    return {"schema": _shape_schema(value)}


def _read_allowed(message: Any) -> Any:
    """Read a JSONSchemaPropsOrBool: the schema of additional fields, or whether they are permitted."""
    return _read_schema(message.schema) if message.HasField("schema") else message.allows


def _shape_allowed(value: Any) -> Tree:
    return {"allows": value} if isinstance(value, bool) else {"allows": True, "schema": _shape_schema(value)}


def _read_dependency(message: Any) -> Any:
    """Read a JSONSchemaPropsOrStringArray: a list of field names or a schema."""
    if message.property:
        return list(message.property)
    return _read_schema(message.schema) if message.HasField("schema") else None


def _shape_dependency(value: Any) -> Tree:
    if isinstance(value, list):
        return {"property": value}
    return {"schema": _shape_schema(value)} if isinstance(value, dict) else {}


def _shape_schema(tree: Tree) -> bytes:
    return _serialized(schema.SCHEMA, tree)


_READ: dict[str, DecodeField] = {
    "time": _read_time,
    "microtime": _read_microtime,
    "quantity": lambda message: message.string or "0",
    "intstr": _read_intstr,
    "raw": _read_raw,
    "[str": lambda message: list(message.items),
    "bytes": lambda value: base64.b64encode(value).decode(),
    "num": _read_number,
    SCHEMA: _read_schema,
    f"{SCHEMA}OrArray": _read_schemas,
    f"{SCHEMA}OrBool": _read_allowed,
    f"{SCHEMA}OrStringArray": _read_dependency,
}
_SHAPE: dict[str, Shape] = {
    "time": _shape_time,
    "microtime": _shape_time,
    "quantity": lambda value: {"string": str(value)},
    "intstr": _shape_intstr,
    "raw": lambda value: {} if value is None else {"raw": msgspec.json.encode(value)},
    "[str": lambda values: {"items": values},
    "bytes": _shape_bytes,
    SCHEMA: _shape_schema,
    f"{SCHEMA}OrArray": _shape_schemas,
    f"{SCHEMA}OrBool": _shape_allowed,
    f"{SCHEMA}OrStringArray": _shape_dependency,
}
