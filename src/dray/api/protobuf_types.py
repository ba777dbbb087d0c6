"""Protobuf message classes for all messages of the schema, created on first use.

The field numbers are in the schema table, so no generated code is needed: this module builds descriptors for the
protobuf library. Every field has presence, which distinguishes a pointer to zero from a missing value. Lists are
unpacked, as in Kubernetes' proto2. Strings must be UTF-8, which proto2 would not check. JSON inlines some
messages that protobuf nests (`via`); such a nested message is named `via_NUMBER`. Fields without a number exist
only in JSON.

The schema of a custom resource contains further schemas. Each is declared as bytes, which have the same encoding,
and parsed separately: the protobuf library rejects messages nested deeper than 100 levels, but schemas can be
deeper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message as ProtoMessage

from dray.api import schema

PACKAGE = "dray"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
PARTIAL = f"{META}PartialObjectMetadata"
VIA = "via_"
SCHEMA = f"ref:{schema.SCHEMA}"  # declared as bytes

_Field = descriptor_pb2.FieldDescriptorProto
_Descriptor = descriptor_pb2.DescriptorProto

_SCALARS = {
    "str": _Field.TYPE_STRING,
    "i32": _Field.TYPE_INT32,
    "i64": _Field.TYPE_INT64,
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "num": _Field.TYPE_DOUBLE,
}
# Values that are scalars in JSON but messages in protobuf, with the names, types and numbers of their fields.
_WRAPPED: dict[str, dict[str, tuple[str, int]]] = {
    "time": {"seconds": ("i64", 1), "nanos": ("i32", 2)},
    "microtime": {"seconds": ("i64", 1), "nanos": ("i32", 2)},
    "quantity": {"string": ("str", 1)},
    "intstr": {"type": ("i64", 1), "intVal": ("i32", 2), "strVal": ("str", 3)},
    "raw": {"raw": ("bytes", 1)},
    "[str": {"items": ("[str", 1)},  # a list as the value of a map
}
_ENVELOPE: dict[str, dict[str, tuple[str, int]]] = {
    "TypeMeta": {"apiVersion": ("str", 1), "kind": ("str", 2)},
    "Unknown": {
        "typeMeta": ("ref:TypeMeta", 1),
        "raw": ("bytes", 2),
        "contentEncoding": ("str", 3),
        "contentType": ("str", 4),
    },
    "WatchEvent": {"type": ("str", 1), "object": ("raw", 2)},
}


def type_name(type_: str) -> str:
    """Return the name of the protobuf message for values of a type in the notation of the schema."""
    if type_.startswith("ref:"):
        return _identifier(type_[4:])
    return {"[str": "StringList"}.get(type_, type_)


def message_class(name: str) -> type[ProtoMessage]:
    """Return the class of a message, by its schema name or the name of an envelope.

    Raises KeyError if the name is unknown.
    """
    return _classes()[f"{PACKAGE}.{_identifier(name)}"]


def _identifier(name: str) -> str:
    """Return a name with characters that protobuf does not permit replaced."""
    return name.replace(".", "_").replace("-", "_")


def field_name(name: str) -> str:
    """Return the protobuf name of a JSON field; `$ref` and `x-kubernetes-...` are not valid identifiers."""
    return name.replace("-", "_").replace("$", "_")


def list_name(name: str) -> str:
    """Return the name of the list message of a kind."""
    return f"{name}List"


@cache
def messages() -> Mapping[str, Mapping[str, schema.Field]]:
    """Return the fields of all messages: objects, their parts, and lists of objects."""
    table = schema.table()
    found: dict[str, Mapping[str, schema.Field]] = {name: message.fields for name, message in table.items()}
    found[PARTIAL] = {"metadata": schema.Field(f"ref:{META}ObjectMeta", 1)}
    for name in [PARTIAL, *(name for name, message in table.items() if message.kinds)]:
        metadata = schema.Field(f"ref:{META}ListMeta", 1, pointer=True)
        found[list_name(name)] = {"metadata": metadata, "items": schema.Field(f"[ref:{name}", 2)}
    return found


@cache
def _classes() -> dict[str, type[ProtoMessage]]:
    file = descriptor_pb2.FileDescriptorProto(
        name="dray.proto", package=PACKAGE, syntax="editions", edition=descriptor_pb2.EDITION_2023
    )
    file.options.features.repeated_field_encoding = descriptor_pb2.FeatureSet.EXPANDED
    for type_, fields in _WRAPPED.items():
        _plain(file.message_type.add(name=type_name(type_)), fields)
    for name, fields in _ENVELOPE.items():
        _plain(file.message_type.add(name=name), fields)
    for name, members in messages().items():
        _message(file.message_type.add(name=_identifier(name)), members.items())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClassesForFiles(["dray.proto"], pool)


def _plain(target: _Descriptor, fields: dict[str, tuple[str, int]]) -> None:
    for name, (type_, number) in fields.items():
        _field(target, target.name, name, number, type_)


def _message(target: _Descriptor, fields: Iterable[tuple[str, schema.Field]]) -> None:
    numbered = [(field_name(name), field.number, field.type, field.via) for name, field in fields if field.number]
    _level(target, target.name, numbered)


def _level(target: _Descriptor, path: str, fields: list[tuple[str, int, str, tuple[int, ...]]]) -> None:
    """Add the fields of one message; fields that protobuf nests are added to nested messages, recursively."""
    nested: dict[int, list[tuple[str, int, str, tuple[int, ...]]]] = {}
    for name, number, type_, via in fields:
        if via:
            nested.setdefault(via[0], []).append((name, number, type_, via[1:]))
        else:
            _field(target, path, name, number, type_)
    for number, inner in nested.items():
        name = f"Via{number}"
        _level(target.nested_type.add(name=name), f"{path}.{name}", inner)
        target.field.add(
            name=f"{VIA}{number}",
            number=number,
            type=_Field.TYPE_MESSAGE,
            type_name=f".{PACKAGE}.{path}.{name}",
            label=_Field.LABEL_OPTIONAL,
        )


def _field(target: _Descriptor, path: str, name: str, number: int, type_: str) -> None:
    repeated = type_[0] in "[{"
    field = target.field.add(
        name=name, number=number, label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    )
    if type_[0] == "{":
        entry = f"{name[0].upper()}{name[1:]}Entry"  # name required by protobuf
        _map_entry(target.nested_type.add(name=entry), type_[1:])
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{path}.{entry}"
    else:
        _set_type(field, type_[1:] if repeated else type_)


def _map_entry(entry: _Descriptor, value: str) -> None:
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
    _set_type(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), value)


def _set_type(field: _Field, type_: str) -> None:
    if type_ in _SCALARS:
        field.type = _SCALARS[type_]
    elif type_ == SCHEMA:
        field.type = _Field.TYPE_BYTES
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{type_name(type_)}"
