"""From the bytes of a request to a tree: JSON, YAML or protobuf, by content type.

Whatever a client sends comes out as a tree of plain values or as an error that says where it went wrong. YAML is read
without aliases, so that no small text becomes a huge tree, and with JSON's idea of values (no dates, no sexagesimals).
Left out: what the tree means.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, ClassVar

import msgspec

from dray.api.decode import duplicate_fields
from dray.api.errors import BadRequest, UnsupportedMediaType
from dray.api.resources import Resource
from dray.apiserver.request import PATCH_TYPES

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_BODIES = (JSON, YAML, PROTOBUF)
_DEEPEST = 200  # levels of YAML; no kind of the API needs a tenth of it
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


def read_body(content_type: str, data: bytes, resource: Resource, version: str) -> tuple[Any, list[str]]:
    """The tree of an object, and complaints about fields that it says twice."""
    media = media_type(content_type) or JSON
    if media == PROTOBUF:
        return _read_protobuf(data, resource, version), []
    if media not in (JSON, YAML):
        raise unsupported_media(media, _BODIES)
    try:
        tree = _read_yaml(data) if media == YAML else msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadRequest(_unrecognized(resource, data, media, error)) from error
    return tree, duplicate_fields(data, tree) if media == JSON else []


def read_patch(content_type: str, data: bytes) -> tuple[str, Any]:
    """The media type and the tree of a patch."""
    media = media_type(content_type)
    if media not in PATCH_TYPES:
        raise unsupported_media(media, PATCH_TYPES)
    try:
        return media, _read_yaml(data) if media.endswith("yaml") else msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadRequest(f"error decoding patch: {_go_words(data, error)}") from error


def unsupported_media(media: str, accepted: tuple[str, ...]) -> UnsupportedMediaType:
    listed = ", ".join(accepted)
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
        + (f" (got {media})" if media else "")
    )


def _read_protobuf(data: bytes, resource: Resource, version: str) -> Any:
    from dray.api import protobuf  # large, and only Go clients need it

    return protobuf.decode(data, resource.api_version(version), resource.kind)


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


def _read_yaml(data: bytes) -> Any:
    import yaml

    try:
        _check_yaml(data)
        return yaml.load(data, _yaml_loader())
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from error


def _check_yaml(data: bytes) -> None:
    """Refuse what would be deep enough to exhaust the stack of the C loader, or small enough to become huge."""
    import yaml

    depth = 0
    for event in yaml.parse(data, _yaml_loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise ValueError(f"more than {_DEEPEST} levels of nesting")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            raise ValueError("YAML aliases are not accepted")


@cache
def _yaml_loader() -> Any:
    """A loader of what JSON can say, made when the first YAML arrives."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # which one is known at run time
        yaml_implicit_resolvers: ClassVar[dict[str, list[Any]]] = {}

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise ValueError("a YAML key must be a plain value")
                key.tag = "tag:yaml.org,2002:str"
            return super().construct_mapping(node, deep)

    resolvers = (
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF", list("tTfFyYnNoO")),
        ("int", r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+", list("-+0123456789")),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    )
    for name, pattern, first in resolvers:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"^(?:{pattern})$"), first)
    return Loader
