"""Decode the body of a request by content type: JSON, YAML or protobuf.

The result is a tree of plain values, or an error that says where the body is malformed. YAML is read without aliases,
so that a small text cannot become a huge tree, and with JSON's values only (no dates, no sexagesimal numbers).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from math import isfinite
from typing import Any, ClassVar

import msgspec

from dray.api.decode import duplicate_fields
from dray.api.errors import ApiError, BadRequest, TooLarge, UnsupportedMediaType
from dray.api.quoting import quote
from dray.api.resources import Resource
from dray.apiserver.limits import Limits
from dray.apiserver.request import JSON_PATCH, NOTHING_TWICE, PATCH_TYPES, Repeated

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_BODIES = (JSON, YAML, PROTOBUF)
_SHORT = 64 << 10  # bytes of malformed JSON that is parsed again for a better message
_SUMMARY = 30  # bytes of a body shown in an error
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)  # an unterminated string extends to the end
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")
_JSON_NOTHING = "unexpected end of JSON input"
_AFTER = {
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Expecting value": "looking for beginning of value",
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}


def media_type(content_type: str) -> str:
    """Return the media type in a Content-Type header, without parameters."""
    return content_type.partition(";")[0].strip().lower()


class Reading(msgspec.Struct, frozen=True):
    """Limits on the depth and size of bodies."""

    limits: Limits

    def check(self, tree: Any, data: bytes, values: int) -> None:
        """Raise BadRequest or TooLarge if a decoded body exceeds the limits. Costs nothing for short bodies.

        Later steps visit all levels by recursion, also in lists together with other objects, and take time for every
        value.
        """
        shallow = _brackets(data) <= self.limits.depth
        if not shallow or (len(data) > values and data.count(b",") + data.count(b":") > values):
            self.walk(tree, values)

    def glance(self, data: bytes, values: int) -> None:
        """Raise before decoding if JSON has too many objects and lists. Brackets inside strings do not count.

        `values` is the maximum number of values. Raises RecursionError if the start of the text is nested too deeply.
        """
        if len(data) <= values or _brackets(data) <= values:
            return
        begun = _STRING.sub(b"", data[:_SHORT]).translate(None, _NO_BRACKETS)
        if max(accumulate(1 if bracket in b"{[" else -1 for bracket in begun), default=0) > self.limits.depth:
            raise RecursionError
        many_strings = data.count(b'"') - data.count(b'\\"') > 4 * values  # two quotes for a value, two for its name
        if many_strings or _brackets(_STRING.sub(b"", data)) > values:
            raise _too_many(values)

    def walk(self, tree: Any, values: int) -> None:
        """Raise BadRequest or TooLarge if a tree is nested too deeply or has too many values.

        For trees without JSON text.
        """
        level, seen = [tree], 0
        for _ in range(self.limits.depth + 1):
            seen += sum(map(len, level))
            if seen > values:
                raise _too_many(values)
            children = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
            level = [child for child in children if isinstance(child, (dict, list))]
            if not level:
                return
        raise _too_deep(self.limits.depth)


ORDINARY = Reading(Limits())


def read_body(
    content_type: str, data: bytes, resource: Resource, version: str, reading: Reading = ORDINARY
) -> tuple[Any, Repeated]:
    """Return the tree of an object, and messages about duplicate fields.

    A missing content type means JSON. Raises an ApiError if the media type is not supported or the body cannot be
    decoded.
    """
    media = content_type if content_type == JSON else media_type(content_type) or JSON
    values = reading.limits.values
    if media == PROTOBUF:
        tree = _read_protobuf(data, resource, version, values)
        reading.walk(tree, values)
        return tree, NOTHING_TWICE
    if media not in (JSON, YAML):
        raise unsupported_media(media, _BODIES)
    try:
        if media == YAML:
            return _read_yaml(reading, data, values)
        tree = _read_json(reading, data, values)
    except RecursionError as error:
        raise BadRequest(_unrecognized(resource, data, media, _too_deep(reading.limits.depth))) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise BadRequest(_unrecognized(resource, data, media, error)) from error
    if not isinstance(tree, (dict, list)):
        return tree, NOTHING_TWICE
    reading.check(tree, data, values)
    return tree, _repeated(data, tree, values)


def _repeated(data: bytes, tree: Any, values: int, prefix: str = "") -> Repeated:
    """Return messages about duplicate fields in JSON."""
    found = duplicate_fields(data, tree, values)
    return Repeated([prefix + complaint for complaint in found]) if found else NOTHING_TWICE


def read_patch(content_type: str, data: bytes, reading: Reading = ORDINARY) -> tuple[str, Any, Repeated]:
    """Return media type and tree of a patch, and messages about duplicate fields.

    Raises an ApiError if the media type is none of a patch or the patch cannot be decoded.
    """
    media = media_type(content_type)
    if media not in PATCH_TYPES:
        raise unsupported_media(media, PATCH_TYPES)
    values = reading.limits.values
    try:
        if media.endswith("yaml"):
            return media, *_read_yaml(reading, data, values)
        tree = _read_json(reading, data, values)
    except RecursionError as error:
        raise _too_deep(reading.limits.depth) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise BadRequest(f"error decoding patch: {_go_words(data, error)}") from error
    if not isinstance(tree, (dict, list)):
        return media, tree, NOTHING_TWICE
    reading.check(tree, data, values)
    return media, tree, _repeated(data, tree, values, "json patch " if media == JSON_PATCH else "")


def _too_deep(limit: int) -> ApiError:
    return BadRequest(f"the object is nested too deeply: limit is {limit} levels")


def _too_many(limit: int) -> ApiError:
    return TooLarge(f"Request entity too large: limit is {limit} values")


def unsupported_media(media: str, accepted: tuple[str, ...]) -> UnsupportedMediaType:
    """Return the error for an unknown content type."""
    listed = ", ".join(accepted)
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
        + (f" (got {media})" if media else "")
    )


def _read_protobuf(data: bytes, resource: Resource, version: str, values: int) -> Any:
    from dray.api import protobuf  # late: large, and only Go clients need it

    return protobuf.decode(data, resource.api_version(version), resource.kind, values)


def require_kind(resource: Resource, data: bytes, tree: Any) -> None:
    """Raise BadRequest if a custom object has no kind. Built-in objects may omit it."""
    if resource.custom is None or not isinstance(tree, dict) or tree.get("kind"):
        return
    text = data.decode(errors="replace")
    shown = text if len(data) <= _SUMMARY else f"{text[:_SUMMARY]} ..."
    meant = f"the object provided is unrecognized (must be of type {resource.kind})"
    raise BadRequest(f"{meant}: Object 'Kind' is missing in '{text}' ({shown})")


def _unrecognized(resource: Resource, data: bytes, media: str, error: Exception) -> str:
    """Return the error message for a body that cannot be decoded, in Kubernetes' wording."""
    start = f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind;"
    if not data:
        return f"{start} json parse error: {_JSON_NOTHING}"
    shown = data[:64].decode(errors="replace")
    if media == YAML:
        return f"{start} yaml parse error: {error}"
    return f"{start} json parse error: {_go_words(data, error)} ({shown})"


def _go_words(data: bytes, error: Exception) -> str:
    """Return Go's message for malformed JSON, which clients and people search for."""
    if len(data) > _SHORT:
        return str(error)
    try:
        json.loads(data)
    except json.JSONDecodeError as found:
        character = found.doc[found.pos : found.pos + 1]
        words = _AFTER.get(found.msg)
        if not character:
            return _JSON_NOTHING
        return f"invalid character {character!r} {words}" if words else found.msg
    except (ValueError, RecursionError):
        pass
    return str(error)


def _brackets(data: bytes) -> int:
    """Return the number of opening brackets and braces in a JSON text, including those in strings."""
    return data.count(b"{") + data.count(b"[")


def _read_json(reading: Reading, data: bytes, values: int) -> Any:
    reading.glance(data, values)
    return msgspec.json.decode(data)


def _read_yaml(reading: Reading, data: bytes, values: int) -> tuple[Any, Repeated]:
    """Return the tree of a YAML document, and messages about duplicate keys.

    Raises ValueError if the document is malformed.
    """
    import yaml

    try:
        _check_yaml(reading.limits.depth, data, values)
        loader = _yaml_loader()(data)
        try:
            tree = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from error
    return tree, Repeated(lines=loader.repeated) if loader.repeated else NOTHING_TWICE


def _check_yaml(deepest: int, data: bytes, values: int) -> None:
    """Raise for YAML with aliases or too many values, or nested deeply enough to overflow the C loader's stack.

    `deepest` is the maximum depth, `values` the maximum number of values. Raises ValueError for an alias.
    """
    import yaml

    depth = 0
    for seen, event in enumerate(yaml.parse(data, _yaml_loader())):
        if seen > 2 * values:  # a member of a mapping is two events
            raise _too_many(values)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > deepest:
                raise _too_deep(deepest)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            raise ValueError("YAML aliases are not accepted")


@cache
def _yaml_loader() -> Any:
    """Return the YAML loader class, created on first use. It accepts only tags and values that JSON has.

    The loader raises ValueError for other tags and for keys that are not plain values.
    """
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # which one is known at run time
        yaml_implicit_resolvers: ClassVar[dict[str, list[Any]]] = {}
        yaml_constructors: ClassVar[dict[str, Any]] = {}

        def __init__(self, stream: bytes) -> None:
            super().__init__(stream)
            self.repeated: list[str] = []

    def mapping(loader: Any, node: Any) -> Any:
        if not isinstance(node, yaml.MappingNode):
            raise ValueError("expected a YAML mapping")
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ValueError("a YAML key must be a plain value")
        found: dict[str, Any] = {}
        for key, value in node.value:
            made = loader.construct_object(value, deep=True)
            if key.value in found:
                line = value.start_mark.line + 1
                loader.repeated.append(f"line {line}: key {quote(key.value)} already set in map")
            found[key.value] = made
        return found

    def sequence(loader: Any, node: Any) -> Any:
        return loader.construct_sequence(node, deep=True)

    def undefined(loader: Any, node: Any) -> Any:
        raise ValueError(f"YAML tag {node.tag!r} means nothing in JSON")

    Loader.add_constructor(f"{_TAG}map", mapping)
    Loader.add_constructor(f"{_TAG}seq", sequence)
    Loader.add_constructor(f"{_TAG}str", lambda loader, node: loader.construct_scalar(node))
    Loader.add_constructor(None, undefined)
    for name, (pattern, first, read) in _YAML_VALUES.items():
        Loader.add_implicit_resolver(_TAG + name, re.compile(f"^(?:{pattern})$"), [*first] + [""] * (name == "null"))
        Loader.add_constructor(_TAG + name, _value(name, re.compile(pattern), read))
    return Loader


def _value(name: str, pattern: re.Pattern[str], read: Callable[[str], Any]) -> Any:
    """Return the constructor of a YAML scalar type. Raises ValueError for text that does not match the pattern."""

    def construct(loader: Any, node: Any) -> Any:
        text = loader.construct_scalar(node)
        if not pattern.fullmatch(text):
            raise ValueError(f"{text[:64]!r} is no YAML {name}")
        return read(text)

    return construct


def _yaml_int(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits is too long")
    return int(text, 0) if "x" in text else int(text)


def _yaml_float(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:64]!r} is too large for a number")
    return number


_TAG = "tag:yaml.org,2002:"
_LONGEST_NUMBER = 4000  # characters; no field takes more than 19 digits, and parsing takes quadratic time
_YAML_VALUES: dict[str, tuple[str, str, Callable[[str], Any]]] = {  # pattern, first characters, conversion
    "null": (r"~|null|Null|NULL|", "~nN", lambda text: None),
    "bool": (
        r"true|True|TRUE|false|False|FALSE|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF",
        "tTfFyYnNoO",
        lambda text: text.lower() in ("true", "yes", "on"),
    ),
    "int": (r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+", "-+0123456789", _yaml_int),
    "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789", _yaml_float),
}
