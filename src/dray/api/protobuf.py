"""Kubernetes' protobuf bodies: four magic bytes, an envelope that names the kind, and the object.

Go drivers and Kubernetes' own tests send objects this way. They become the same JSON trees that JSON bodies are, so
everything behind works on one form. What Go writes and JSON leaves out is left out: a zero that is no pointer's. Fields
without a number (the KEPs' own) and the kinds made of them travel as JSON only. Left out: streams of watch events.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeAlias

import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage

from dray.api import schema
from dray.api.errors import BadRequest, NotAcceptable, UnsupportedMediaType
from dray.api.protobuf_types import META, VIA, list_name, message_class

MAGIC = b"k8s\0"

Tree: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[Any], Any]
Write: TypeAlias = Callable[[Any, Any], None]  # (empty protobuf message, JSON value)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON_ONLY = ("resource.k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha1")  # the KEPs number no fields
_META_KINDS = ("DeleteOptions", "Status")  # sent under whatever group and version the client speaks


def decode(body: bytes, api_version: str = "", kind: str = "") -> Tree:
    """The JSON tree of a protobuf body; the kind given here counts where the body names none."""
    if not body.startswith(MAGIC):
        raise BadRequest("the body is not Kubernetes protobuf: it does not start with the four bytes 'k8s\\0'")
    envelope: Any = message_class("Unknown")()
    _parse(envelope, body[len(MAGIC) :], "the envelope")
    api_version = envelope.typeMeta.apiVersion or api_version
    kind = envelope.typeMeta.kind or kind
    if envelope.contentEncoding:
        raise BadRequest(f"content encoding {envelope.contentEncoding!r} of a protobuf body is not supported")
    name = _message_name(api_version, kind)
    if api_version in _JSON_ONLY:
        raise UnsupportedMediaType(f"{api_version} has no protobuf form; send application/json")
    if name is None:
        raise BadRequest(f'no kind "{kind}" is registered for version "{api_version}" in protobuf')
    tree = decode_message(name, envelope.raw)
    return {"apiVersion": api_version, "kind": kind, **tree}


def decode_message(name: str, data: bytes) -> Tree:
    """The JSON tree of one message, without an envelope."""
    message = message_class(name)()
    _parse(message, data, name.rpartition(".")[2])
    try:
        return _read(_plan(name), message)
    except (ValueError, OverflowError, msgspec.DecodeError) as error:  # times outside the calendar, raw that is no JSON
        raise BadRequest(f"a protobuf field of {name.rpartition('.')[2]} cannot be read: {error}") from error


def encode(tree: Tree) -> bytes:
    """An object or list as a protobuf body."""
    api_version, kind = tree.get("apiVersion", ""), tree.get("kind", "")
    name = _message_name(api_version, kind)
    if name is None:
        raise NotAcceptable(f'{kind} of "{api_version}" has no protobuf form; ask for application/json')
    envelope: Any = message_class("Unknown")()
    envelope.typeMeta.apiVersion, envelope.typeMeta.kind = api_version, kind
    envelope.raw = encode_message(name, tree)
    return MAGIC + bytes(envelope.SerializeToString())


def encode_message(name: str, tree: Tree) -> bytes:
    """One message without an envelope; members that protobuf does not know are left out."""
    message = message_class(name)()
    _write(_plan(name), message, tree)
    return bytes(message.SerializeToString())


def _parse(message: ProtoMessage, data: bytes, what: str) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise BadRequest(f"{what} cannot be decoded as protobuf: {error}") from error


@cache
def _kinds() -> dict[tuple[str, str], str]:
    """Message names by API version and kind, lists included."""
    found: dict[tuple[str, str], str] = {}
    for name, message in schema.table().items():
        for group, version, kind in message.kinds:
            api_version = f"{group}/{version}" if group else version
            if api_version not in _JSON_ONLY:
                found[api_version, kind] = name
                found[api_version, f"{kind}List"] = list_name(name)
    return found


def _message_name(api_version: str, kind: str) -> str | None:
    return META + kind if kind in _META_KINDS else _kinds().get((api_version, kind))


class _Slot(msgspec.Struct, frozen=True):
    """How one field travels. `keep`: a zero value is told apart from nothing."""

    read: Read
    write: Write | None  # None: a plain value that is assigned as it is
    form: str  # "", "[", "{", or "via"
    keep: bool


_Plan: TypeAlias = dict[str, _Slot]


@cache
def _plan(name: str) -> _Plan:
    if name.endswith("List") and name not in schema.table():
        members = {
            "metadata": schema.Field(type=f"ref:{META}ListMeta", number=1, pointer=True),
            "items": schema.Field(type=f"[ref:{name.removesuffix('List')}", number=2),
        }
        return _level(members, ())
    return _level(schema.message(name).fields, ())


def _level(fields: dict[str, schema.Field], prefix: tuple[int, ...]) -> _Plan:
    """The fields at one depth of nesting, by their protobuf names."""
    depth = len(prefix)
    plan: _Plan = {}
    for name, field in fields.items():
        if not field.number or field.via[:depth] != prefix:
            continue
        if len(field.via) == depth:
            plan[name] = _slot(field)
        elif f"{VIA}{field.via[depth]}" not in plan:
            inner = _level(fields, field.via[: depth + 1])
            plan[f"{VIA}{field.via[depth]}"] = _Slot(_reader(inner), _writer(inner), "via", False)
    return plan


def _slot(field: schema.Field) -> _Slot:
    form = field.type[0] if field.type[0] in "[{" else ""
    element = field.element
    keep = bool(field.pointer) or element == "quantity"  # a quantity is never left out
    if element.startswith("ref:"):
        inner = element[4:]
        read: Read = lambda message: _read(_plan(inner), message)  # noqa: E731  # plans are made late: lists of kinds
        write: Write | None = lambda message, tree: _write(_plan(inner), message, tree)  # noqa: E731
        return _Slot(read, write, form, keep)
    return _Slot(_READ.get(element, _same), _WRITE.get(element), form, keep)


def _reader(plan: _Plan) -> Read:
    return lambda message: _read(plan, message)


def _writer(plan: _Plan) -> Write:
    return lambda message, tree: _write(plan, message, tree)


def _read(plan: _Plan, message: Any) -> Tree:
    tree: Tree = {}
    for descriptor, value in message.ListFields():
        name = descriptor.name
        slot = plan[name]
        read = slot.read
        if slot.form == "[":
            tree[name] = [read(element) for element in value]
        elif slot.form == "{":
            tree[name] = {key: read(value[key]) for key in value}
        elif slot.form == "via":
            tree |= read(value)
        elif (found := read(value)) or (slot.keep and found is not None):
            tree[name] = found
    return tree


def _write(plan: _Plan, message: Any, tree: Tree) -> None:
    for name, slot in plan.items():
        if slot.form == "via":
            assert slot.write is not None
            slot.write(getattr(message, name), tree)
        elif (value := tree.get(name)) is not None:
            _write_field(message, name, slot, value)


def _write_field(message: Any, name: str, slot: _Slot, value: Any) -> None:
    write = slot.write
    target = getattr(message, name)
    if slot.form == "[":
        if write is None:
            target.extend(value)
        else:
            for element in value:
                write(target.add(), element)
    elif slot.form == "{":
        for key, element in value.items():
            if write is None:
                target[key] = element
            elif write is _write_bytes:
                target[key] = _decoded(element)
            else:
                write(target[key], element)
    elif write is None:
        setattr(message, name, value)
    elif write is _write_bytes:
        setattr(message, name, _decoded(value))
    else:
        target.SetInParent()
        write(target, value)


def _same(value: Any) -> Any:
    return value


def _read_time(message: Any) -> str | None:
    if not message.ListFields():
        return None  # how Go writes a time that is not set
    moment = _EPOCH + timedelta(seconds=message.seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")


def _read_microtime(message: Any) -> str | None:
    seconds = _read_time(message)
    if not 0 <= message.nanos < 1_000_000_000:
        raise ValueError(f"{message.nanos} nanoseconds are no part of a second")
    return seconds and f"{seconds[:-1]}.{message.nanos // 1000:06}Z"


def _write_time(message: Any, text: str) -> None:
    moment = datetime.fromisoformat(text)
    since = moment.astimezone(UTC) - _EPOCH
    message.seconds = since.days * 86400 + since.seconds
    message.nanos = since.microseconds * 1000


def _write_quantity(message: Any, text: Any) -> None:
    message.string = str(text)


def _read_intstr(message: Any) -> int | str:
    value: int | str = message.strVal if message.type else message.intVal
    return value


def _write_intstr(message: Any, value: int | str) -> None:
    if isinstance(value, str):
        message.type, message.strVal = 1, value
    else:
        message.type, message.intVal = 0, value


def _read_raw(message: Any) -> Any:
    return msgspec.json.decode(message.raw) if message.raw else None


def _write_raw(message: Any, value: Any) -> None:
    message.raw = msgspec.json.encode(value)


def _write_strings(message: Any, values: list[str]) -> None:
    message.items.extend(values)


def _write_bytes(message: Any, text: str) -> None:
    raise AssertionError("bytes are assigned, not written into a message")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise BadRequest(f"{text!r} is not base64: {error}") from error


_READ: dict[str, Read] = {
    "time": _read_time,
    "microtime": _read_microtime,
    "quantity": lambda message: message.string or "0",
    "intstr": _read_intstr,
    "raw": _read_raw,
    "[str": lambda message: list(message.items),
    "bytes": lambda value: base64.b64encode(value).decode(),
}
_WRITE: dict[str, Write] = {
    "time": _write_time,
    "microtime": _write_time,
    "quantity": _write_quantity,
    "intstr": _write_intstr,
    "raw": _write_raw,
    "[str": _write_strings,
    "bytes": _write_bytes,
}
