"""Decoding of client input: validates the structure of JSON trees and converts them to typed objects.

A tree that fits its struct is accepted quickly: one `msgspec.convert`, and a walk over the few fields that have a
canonical form (quantities, times) or a range (integers). Any other tree is walked completely along the schema: nulls
are removed as Go does, all unknown fields are found, and type errors are worded as in Kubernetes. The caller decides
whether unknown fields are rejected, warned about or ignored.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, TypeVar

import msgspec

from dray.api import schema
from dray.api.custom import objects, pruning
from dray.api.errors import BadRequest, Invalid, TooLarge, invalid
from dray.api.quantity import FORMAT_WRONG, Quantity, QuantityError
from dray.api.quoting import quote
from dray.api.resources import Resource
from dray.api.wire import Tree, Wire

T = TypeVar("T")

_RANGES = {"i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1)}
_GO_NAMES = {
    "str": "string",
    "i32": "int32",
    "i64": "int64",
    "num": "float64",
    "bool": "bool",
    "bytes": "[]uint8",
    "time": "string",
    "microtime": "string",
    "quantity": "resource.Quantity",
    "intstr": "int32",  # the type of an IntOrString that is not a string
    "raw": "runtime.RawExtension",
}
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:[.,](\d+))?([Zz]|[+-]\d\d:\d\d)")


META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCHEMA = schema.SCHEMA
_UNIONS = dict.fromkeys(schema.UNIONS, _SCHEMA)


class _WrongType(Exception):
    """A value does not fit its field; the message has the wording of Kubernetes."""


class _TypeMismatch(_WrongType):
    """A value has another type than its field. `path` grows while the error propagates up the levels of the tree."""

    def __init__(self, word: str, holder: str, go_type: str) -> None:
        super().__init__(word)
        self.word, self.holder, self.go_type, self.path = word, holder, go_type, ""

    def within(self, name: str) -> _TypeMismatch:
        self.path = f"{name}.{self.path}" if self.path else name
        return self

    def __str__(self) -> str:
        field = f"{self.holder}.{self.path}"
        return f"json: cannot unmarshal {self.word} into Go struct field {field} of type {self.go_type}"


def duplicate_fields(body: bytes, tree: Any, most: int) -> list[str]:
    """Return one warning per field that occurs twice in a JSON body.

    Decoding drops repeated keys, so if re-encoding the tree yields as many quotes as the body, no field is repeated.
    Otherwise the body is parsed again by a slower parser. Raises TooLarge if more than `most` fields were dropped.
    Duplicate fields are moved in the tree to their second position, the order in which warnings are reported
    (`together`).
    """
    again = msgspec.json.encode(tree)
    lost = body.count(b'":') - again.count(b'":')
    if not lost and body.count(b'"') == again.count(b'"'):
        return []
    if lost > most:
        raise TooLarge(f"Request entity too large: limit is {most} values")
    return [f'duplicate field "{path}"' for path in _repeated(json.loads(body, object_pairs_hook=_Pairs), tree, "")]


class _Pairs(dict[str, Any]):
    """A JSON object whose duplicate fields are at the position of their second occurrence."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: set[str] = set()
        if len(self) == len(pairs):
            return
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen and name not in self.repeated:
                self.repeated.add(name)
                self[name] = self.pop(name)
            elif name not in seen:
                seen.add(name)
                self[name] = self.pop(name)


def _repeated(value: Any, tree: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        if value.repeated:
            ordered = {name: tree[name] for name in value}
            tree.clear()
            tree.update(ordered)
        for name, child in value.items():
            here = f"{path}.{name}" if path else name
            if name in value.repeated:
                yield here
            yield from _repeated(child, tree[name], here)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _repeated(child, tree[index], f"{path}[{index}]")


def field_places(tree: Any) -> dict[str, int]:
    """Return the position of each field in a tree, by path. Positions count all fields in the order of the tree."""
    return {path: place for place, path in enumerate(_paths(tree, ""))}


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, child in value.items():
            here = f"{path}.{name}" if path else name
            yield here
            yield from _paths(child, here)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _paths(child, f"{path}[{index}]")


def together(unknown: Sequence[str], repeated: Sequence[str], places: Mapping[str, int]) -> list[str]:
    """Return the warnings about unknown and duplicate fields in the order of the body.

    Duplicates within unknown fields are omitted.
    """
    strange = [_path(complaint) for complaint in unknown]
    known = [one for one in repeated if not any(_is_within(_path(one), path) for path in strange)]
    return sorted([*unknown, *known], key=lambda complaint: places.get(_path(complaint), 0))


def _path(complaint: str) -> str:
    return complaint.partition('"')[2][:-1]


def _is_within(path: str, outer: str) -> bool:
    return path.startswith(outer) and path[len(outer) :][:1] in ("", ".", "[")


def check_kind(resource: Resource, expected: str, tree: Any) -> None:
    """Raise BadRequest for a body of another kind or version than the request's.

    A missing kind or apiVersion is accepted. Raises BadRequest too if the body is not an object, and Invalid if only
    the kind of a custom object differs. `expected` is the apiVersion of the request.
    """
    if not isinstance(tree, dict):
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind; "
            f"json parse error: json: cannot unmarshal {_json_word(tree)} into Go value of type struct"
        )
    kind = resource.kind if tree.get("kind") in (None, "") else tree["kind"]
    api_version = expected if tree.get("apiVersion") in (None, "") else tree["apiVersion"]
    if not isinstance(kind, str) or not isinstance(api_version, str):
        field = "kind" if not isinstance(kind, str) else "apiVersion"
        raise BadRequest(f"couldn't get version/kind; json parse error: {field} must be a string")
    if kind != resource.kind and resource.custom is not None and api_version == expected:
        meant = dataclasses.replace(resource, kind=kind)
        name = (tree.get("metadata") or {}).get("name") or ""
        raise Invalid(meant, name, [invalid("kind", kind, f"must be {resource.kind}")])
    if kind != resource.kind:
        short = api_version.rpartition("/")[2]
        internal = resource.group.partition(".")[0] or "core"
        raise BadRequest(
            f'{kind} in version "{short}" cannot be handled as a {resource.kind}: '
            f"converting ({short}.{kind}) to ({internal}.{resource.kind}): unknown conversion"
        )
    if api_version != expected:
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )


# Validation of a tree


def check(resource: Resource, version: str, tree: Any) -> list[str]:
    """Validate the structure of a request's tree and bring it into canonical form, in place.

    Returns warnings about unknown fields. Afterwards, every value has the type and canonical form of its field.
    Raises BadRequest if this is impossible, and Invalid if a custom object has another kind.
    """
    api_version = resource.api_version(version)
    check_kind(resource, api_version, tree)
    tree["kind"], tree["apiVersion"] = resource.kind, api_version
    if resource.custom is not None:
        return _check_custom(resource, version, tree)
    plan = _plan_of(resource, version)
    if version == resource.stored:
        try:
            msgspec.convert(tree, resource.type)
            _tidy(plan, tree)
            return []
        except (msgspec.ValidationError, _WrongType, RecursionError):
            pass  # the complete walk below finds the reason
    complaints: list[str] = []
    try:
        _walk(plan, tree, "", complaints)
    except (_WrongType, RecursionError) as error:
        raise BadRequest(
            f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: {error}'
        ) from error
    return complaints


def _check_custom(resource: Resource, version: str, tree: Tree) -> list[str]:
    """Validate the structure of a custom object, prune it and add its defaults, in place.

    Returns the warnings about removed fields. Values of a wrong type are reported later by validation, which lists
    all of them. Raises BadRequest for metadata of a wrong type and unfit field names.
    """
    assert resource.custom is not None
    node = resource.custom.versions[version].node
    complaints: list[str] = []
    metadata = tree.get("metadata")
    try:
        if metadata is not None:
            _expect_metadata(metadata)
            _walk(_plan(f"{META}ObjectMeta"), metadata, "metadata", complaints)
        complaints += sorted(pruning.pruned(node, tree))
        for path, embedded in pruning.embedded_metadata(node, tree):
            _expect_metadata(embedded)
            _walk(_plan(f"{META}ObjectMeta"), embedded, path, complaints)
        pruning.fill(node, tree, pruning.DefaultsBudget(pruning.MOST_DEFAULTS))
        if (name := objects.unfit_name(tree)) is not None:
            raise _WrongType(f"field {quote(name)} has quotes, backslashes or control characters in its name")
    except (_WrongType, RecursionError) as error:
        raise BadRequest(
            f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: {error}'
        ) from error
    return complaints


def strict_error(resource: Resource, version: str, complaints: list[str]) -> BadRequest:
    """Return the error of strict field validation for these warnings."""
    return BadRequest(
        f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: '
        f"strict decoding error: {', '.join(complaints)}"
    )


def to_object(resource: Resource, tree: Tree) -> Wire:
    """Convert a stored tree to a typed object. A tree that `check` has accepted always converts."""
    if resource.custom is not None:
        return objects.from_tree(tree)
    try:
        return msgspec.convert(tree, resource.type)
    except msgspec.ValidationError:
        check(resource, resource.stored, tree)
        return msgspec.convert(tree, resource.type)


def part(message: str, type_: type[T], tree: Tree) -> T | None:
    """Convert a part of an object to canonical form, in place, and to a struct. Returns None if it does not fit.

    `message` is the schema name of the part.
    """
    try:
        found = msgspec.convert(tree, type_)
        return msgspec.convert(tree, type_) if _tidy(_plan(message), tree) else found
    except (msgspec.ValidationError, _WrongType):
        return None


# The schema, compiled for the walks


class _Slot(msgspec.Struct):
    """Information about one field for the walks."""

    type: str  # type of the value, or of one element
    shape: str  # "" for a value, "[" for a list, "{" for a map
    message: str  # message of the value or of one element, empty for scalars
    nullable: bool  # whether an empty list is encoded as null
    go_type: str
    inlined: str  # names of inlined structs that Go writes before the field name in paths
    word: str  # Go type of the value or of one element


class _Plan(msgspec.Struct):
    """One message: its fields, and those that the quick walk must visit."""

    name: str
    slots: dict[str, _Slot]
    visited: dict[str, _Slot]


_METADATA_SLOT = _Slot(f"ref:{META}ObjectMeta", "", f"{META}ObjectMeta", False, "v1.ObjectMeta", "", "v1.ObjectMeta")
_METADATA_HOLDER = _Plan("CustomResource", {}, {})


@cache
def _plan_of(resource: Resource, version: str) -> _Plan:
    return _plan(resource.message(version))


@cache
def _plan(name: str) -> _Plan:
    message = schema.message(name)
    slots = {field_name: _slot(field, message.inlined) for field_name, field in message.fields.items()}
    visited = {field_name: slot for field_name, slot in slots.items() if _needs_visit(slot)}
    return _Plan(name.rpartition(".")[2], slots, visited)


def _slot(field: schema.Field, inlined: Sequence[str] = ()) -> _Slot:
    nullable = field.is_list and bool(field.always) and bool(field.nil or not field.required)
    shape = field.type[0] if field.is_list or field.is_map else ""
    structs = "".join(f"{name}." for name in inlined[: len(field.via)])
    word = field.go or _go_type(field.element)
    go_type = f"[]{word}" if field.go and shape else field.go or _go_type(field.type)
    return _Slot(field.element, shape, field.reference, nullable, go_type, structs, word)


@cache
def _inner_slot(type_: str) -> _Slot:
    """Return the slot of a list that is a value of a map."""
    return _slot(schema.Field(type_))


def _go_type(type_: str) -> str:
    if type_[0] == "[":
        return f"[]{_go_type(type_[1:])}"
    if type_ == "{quantity":
        return "v1.ResourceList"
    if type_[0] == "{":
        return f"map[string]{_go_type(type_[1:])}"
    if type_.startswith("ref:"):
        *_, package, name = type_.split(".")
        return f"{package}.{name}"
    return _GO_NAMES[type_]


_PLAIN = ("str", "bool", "raw", "num", "[str")


def _needs_visit(slot: _Slot) -> bool:
    return slot.nullable or (slot.message in _visited_messages() if slot.message else slot.type not in _PLAIN)


@cache
def _visited_messages() -> frozenset[str]:
    """Return the messages with a value, at any depth, that has a canonical form or range, or may be null."""
    found: set[str] = set()
    users: dict[str, set[str]] = {}
    for name, message in schema.table().items():
        for field in message.fields.values():
            if field.reference:
                users.setdefault(field.reference, set()).add(name)
            if field.pointer or (field.is_list and field.always) or not (field.reference or field.element in _PLAIN):
                found.add(name)
    pending = list(found)
    while pending:
        for user in users.get(pending.pop(), ()):
            if user not in found:
                found.add(user)
                pending.append(user)
    return frozenset(found)


# The quick walk, after the types have been checked


def _tidy(plan: _Plan, tree: Tree) -> bool:
    """Bring a tree into canonical form, in place. Returns whether anything changed except in JSON schemas.

    Raises _WrongType if a value has no canonical form.
    """
    visited = plan.visited
    empty: list[str] = []
    changed = False
    for name, value in tree.items():
        if value is None:
            empty.append(name)
        elif (slot := visited.get(name)) is None:
            continue
        elif not slot.shape:
            if slot.message == _SCHEMA:
                _tidy_schema(value)
            elif slot.message:
                changed |= _tidy(_plan(slot.message), value)
            elif (clean := _canonical(slot.type, value)) != value:
                tree[name] = clean
                changed = True
        elif slot.nullable and not value:
            empty.append(name)
        elif slot.message:
            inner = _plan(slot.message)
            for item in value if slot.shape == "[" else value.values():
                changed |= _tidy(inner, item)
        elif slot.type not in _PLAIN:
            for key, item in list(enumerate(value) if slot.shape == "[" else value.items()):
                if (clean := _canonical(slot.type, item)) != item:
                    value[key] = clean
                    changed = True
    for name in empty:
        del tree[name]
    return changed or bool(empty)


class _NoComplaints(list[str]):
    """List that ends a quick walk at the first warning, before the unknown field is removed from the tree."""

    def append(self, complaint: str) -> None:
        raise _WrongType


def _tidy_schema(value: Any) -> None:
    """Bring a JSON schema into canonical form, in place. Raises _WrongType if it is not an object.

    Structs hold a schema as an unchecked tree, so its types are checked here.
    """
    if not isinstance(value, dict):
        raise _WrongType
    _walk(_plan(_SCHEMA), value, "", _NoComplaints())


def _canonical(type_: str, value: Any) -> Any:
    """Return a scalar in canonical form. Raises _WrongType if it is invalid."""
    if type_ in _RANGES:
        low, high = _RANGES[type_]
        if not low <= value <= high:
            raise _WrongType
        return value
    if type_ == "quantity":
        try:
            return str(Quantity.from_json(value))
        except QuantityError as error:
            raise _WrongType(str(error)) from error
    if type_ in ("time", "microtime"):
        return canonical_time(value, micro=type_ == "microtime")
    if type_ == "bytes":
        return _canonical_bytes(value)
    if type_ == "intstr" and isinstance(value, int):
        return _canonical("i32", value)
    return value


@lru_cache(maxsize=256)  # most timestamps repeat within the same second
def canonical_time(text: str, micro: bool = False) -> str:
    """Return a timestamp as Kubernetes writes it: in UTC, with whole seconds, or with six digits for `micro`.

    Raises _WrongType if the text is not an RFC 3339 timestamp.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise _WrongType(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}"')
    date, clock, fraction, zone = match.groups(default="")
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}.{fraction[:6]:0<6}{zone.upper()}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _WrongType(f'parsing time "{text}": {error}') from error
    return moment.isoformat(timespec="microseconds" if micro else "seconds").replace("+00:00", "Z")


def _canonical_bytes(text: str) -> str:
    """Return base64 text without line breaks. Raises _WrongType if it is invalid."""
    stripped = text.replace("\n", "").replace("\r", "")
    try:
        return base64.b64encode(base64.b64decode(stripped, validate=True)).decode()
    except (binascii.Error, ValueError) as error:
        raise _WrongType(f"illegal base64 data at input byte {_corrupt_at(text.encode())}") from error


def _corrupt_at(text: bytes) -> int:
    """Return the position of invalid base64 that Go reports; the length of the text if its end is missing."""
    read = 0  # number of characters in the current group of four
    for at, char in enumerate(text):
        if char in b"\r\n":
            continue
        if char not in _BASE64:
            if char != ord("=") or read < 2:
                return at
            rest = text[at + 1 :].lstrip(b"\r\n")
            if read == 2:
                if not rest:
                    return len(text)
                if rest[:1] != b"=":
                    return len(text) - len(rest) - 1
                rest = rest[1:].lstrip(b"\r\n")
            return len(text) - len(rest)
        read = (read + 1) % 4
    return len(text) - read


# The complete walk


def _walk(plan: _Plan, tree: Any, path: str, complaints: list[str]) -> None:
    for name in list(tree):
        here = f"{path}.{name}" if path else name
        slot = plan.slots.get(name)
        if slot is None:
            complaints.append(f'unknown field "{here}"')
            del tree[name]
        elif tree[name] is None or (slot.nullable and tree[name] == []):
            del tree[name]
        else:
            try:
                tree[name] = _walk_slot(plan, slot, tree[name], here, complaints)
            except _TypeMismatch as error:
                raise error.within(slot.inlined + name) from None


def _walk_slot(plan: _Plan, slot: _Slot, value: Any, path: str, complaints: list[str]) -> Any:
    if slot.shape == "[":
        _expect(plan, slot, value, list)
        return [_walk_value(plan, slot, item, f"{path}[{i}]", complaints) for i, item in enumerate(value)]
    if slot.shape == "{":
        _expect(plan, slot, value, dict)
        keyed = bool(slot.message)  # for maps of scalars, Go's path has no key
        return {
            key: _walk_value(plan, slot, item, f"{path}.{key}" if keyed else path, complaints)
            for key, item in value.items()
        }
    return _walk_value(plan, slot, value, path, complaints)


def _walk_value(plan: _Plan, slot: _Slot, value: Any, path: str, complaints: list[str]) -> Any:
    if slot.type == "raw":
        return value
    if slot.message in _UNIONS and not isinstance(value, dict):
        return _walk_union(plan, slot, value, path, complaints)
    if slot.message:
        value = {} if value is None else value
        _expect(plan, slot, value, dict, slot.go_type.lstrip("[]") if slot.shape == "[" else slot.go_type)
        _walk(_plan(_UNIONS.get(slot.message, slot.message)), value, path, complaints)
        return value
    if slot.type[0] == "[":
        return [] if value is None else _walk_slot(plan, _inner_slot(slot.type), value, path, complaints)
    if value is None:
        return _ZERO[slot.type]
    if not isinstance(value, _ACCEPTED[slot.type]) or isinstance(value, bool) is not (slot.type == "bool"):
        raise _WrongType(FORMAT_WRONG) if slot.type == "quantity" else _mismatch(plan, value, slot.word)
    try:
        return _canonical(slot.type, value)
    except _WrongType as error:
        raise error if str(error) else _mismatch(plan, value, slot.word, shown=True) from None


def _walk_union(plan: _Plan, slot: _Slot, value: Any, path: str, complaints: list[str]) -> Any:
    """Walk a value that replaces a schema: a boolean, a list of schemas or a list of names. Returns the value.

    Raises _TypeMismatch for a value of another type.
    """
    if not isinstance(value, bool if slot.message.endswith("Bool") else list):
        raise _mismatch(plan, value, _go_type("ref:" + _SCHEMA))
    for index, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict):
            _walk(_plan(_SCHEMA), item, f"{path}[{index}]", complaints)
    return value


_ACCEPTED: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "i32": int,
    "i64": int,
    "num": (int, float),
    "bool": bool,
    "bytes": str,
    "time": str,
    "microtime": str,
    "quantity": (str, int, float),
    "intstr": (int, str),
}
_ZERO: dict[str, Any] = {"str": "", "i32": 0, "i64": 0, "num": 0, "bool": False, "bytes": "", "quantity": "0"}
_ZERO |= {"intstr": 0, "time": None, "microtime": None}


def _expect(plan: _Plan, slot: _Slot, value: Any, type_: type, go_type: str = "") -> None:
    if not isinstance(value, type_):
        raise _mismatch(plan, value, go_type or slot.go_type)


def _expect_metadata(value: Any) -> None:
    """Raise _TypeMismatch if the metadata of a custom object is not a JSON object."""
    try:
        _expect(_METADATA_HOLDER, _METADATA_SLOT, value, dict)
    except _TypeMismatch as error:
        raise error.within("metadata") from None


def _mismatch(plan: _Plan, value: Any, go_type: str, shown: bool = False) -> _TypeMismatch:
    word = _json_word(value) + (f" {value}" if shown or isinstance(value, float) else "")
    return _TypeMismatch(word, plan.name, go_type)


def _json_word(value: Any) -> str:
    if value is None:
        return "null"
    words: dict[type, str] = {bool: "bool", str: "string", list: "array", dict: "object"}
    return words.get(type(value), "number")
