"""From the bytes of a request to a tree: JSON, YAML or protobuf, by content type.

Whatever a client sends comes out as a tree of plain values or as an error that says where it went wrong. YAML is read
without aliases, so that no small text becomes a huge tree, and with JSON's idea of values (no dates, no sexagesimals).
Left out: what the tree means.
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
_SHORT = 64 << 10  # bytes of malformed JSON that are read again for better words
_SUMMARY = 30  # bytes of a body that an error shows
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)  # one that never ends goes to the end
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
    return content_type.partition(";")[0].strip().lower()


class Reading(msgspec.Struct, frozen=True):
    """How much a body may say."""

    limits: Limits

    def check(self, tree: Any, data: bytes, values: int) -> None:
        """Refuse what is nested too deeply or says too much. Most bodies are too short for either, which costs nothing.

        What goes through every level of a tree does so by recursion, also when the object is listed later and together
        with what others wrote; and what looks at every value takes its time for each.
        """
        shallow = _brackets(data) <= self.limits.depth
        if not shallow or (len(data) > values and data.count(b",") + data.count(b":") > values):
            self.walk(tree, values)

    def glance(self, data: bytes, values: int) -> None:
        """Refuse JSON of too many objects and lists before any is made; what only looks like one stands in a string."""
        if len(data) <= values or _brackets(data) <= values:
            return
        begun = _STRING.sub(b"", data[:_SHORT]).translate(None, _NO_BRACKETS)
        if max(accumulate(1 if bracket in b"{[" else -1 for bracket in begun), default=0) > self.limits.depth:
            raise RecursionError
        many_strings = data.count(b'"') - data.count(b'\\"') > 4 * values  # two quotes for a value, two for its name
        if many_strings or _brackets(_STRING.sub(b"", data)) > values:
            raise _too_many(values)

    def walk(self, tree: Any, values: int) -> None:
        """As `check`, for a tree of which no text tells the size."""
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
    """The tree of an object, and complaints about fields that it says twice."""
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
    found = duplicate_fields(data, tree, values)
    return Repeated([prefix + complaint for complaint in found]) if found else NOTHING_TWICE


def read_patch(content_type: str, data: bytes, reading: Reading = ORDINARY) -> tuple[str, Any, Repeated]:
    """The media type and the tree of a patch, and complaints about fields that it says twice."""
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
    listed = ", ".join(accepted)
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
        + (f" (got {media})" if media else "")
    )


def _read_protobuf(data: bytes, resource: Resource, version: str, values: int) -> Any:
    from dray.api import protobuf  # large, and only Go clients need it

    return protobuf.decode(data, resource.api_version(version), resource.kind, values)


def require_kind(resource: Resource, data: bytes, tree: Any) -> None:
    """A custom object must say what it is; of built-in kinds a body need not."""
    if resource.custom is None or not isinstance(tree, dict) or tree.get("kind"):
        return
    text = data.decode(errors="replace")
    shown = text if len(data) <= _SUMMARY else f"{text[:_SUMMARY]} ..."
    meant = f"the object provided is unrecognized (must be of type {resource.kind})"
    raise BadRequest(f"{meant}: Object 'Kind' is missing in '{text}' ({shown})")


def _unrecognized(resource: Resource, data: bytes, media: str, error: Exception) -> str:
    start = f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind;"
    if not data:
        return f"{start} json parse error: {_JSON_NOTHING}"
    shown = data[:64].decode(errors="replace")
    if media == YAML:
        return f"{start} yaml parse error: {error}"
    return f"{start} json parse error: {_go_words(data, error)} ({shown})"


def _go_words(data: bytes, error: Exception) -> str:
    """What Go would say about this JSON; clients and people search for those words."""
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
    return data.count(b"{") + data.count(b"[")


def _read_json(reading: Reading, data: bytes, values: int) -> Any:
    reading.glance(data, values)
    return msgspec.json.decode(data)


def _read_yaml(reading: Reading, data: bytes, values: int) -> tuple[Any, Repeated]:
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
    """Refuse what would be deep enough to exhaust the stack of the C loader, or small enough to become huge."""
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
    """A loader of what JSON can say, made when the first YAML arrives: no other tags, and no other values."""
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
    """Reads a value that is tagged, by its form or by its author, as one of a kind."""

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
_LONGEST_NUMBER = 4000  # characters; no field takes more than 19 digits, and reading them takes their square
_YAML_VALUES: dict[str, tuple[str, str, Callable[[str], Any]]] = {  # form, first characters, meaning
    "null": (r"~|null|Null|NULL|", "~nN", lambda text: None),
    "bool": (
        r"true|True|TRUE|false|False|FALSE|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF",
        "tTfFyYnNoO",
        lambda text: text.lower() in ("true", "yes", "on"),
    ),
    "int": (r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+", "-+0123456789", _yaml_int),
    "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789", _yaml_float),
}
