"""The schema table of all built-in messages, loaded on first use.

Used for everything that needs information about fields beyond the structs: paths of unknown fields, strategic
merge patch, server-side apply, OpenAPI and protobuf. The keys of `schema.json` are explained in
docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeVar, cast

import msgspec

T = TypeVar("T")

APPS, CORE = "io.k8s.api.apps.v1.", "io.k8s.api.core.v1."
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
SCHEMA = f"{EXTENSIONS}JSONSchemaProps"  # the schema of a custom resource
# Parts of a schema that are a schema or an alternative to a schema; JSON has the bare value.
UNIONS = tuple(f"{SCHEMA}{name}" for name in ("OrArray", "OrBool", "OrStringArray"))
ANY = "any"  # type in custom resources: any JSON value


class Field(msgspec.Struct, frozen=True, gc=False):
    """One field of a message."""

    type: str = msgspec.field(name="t")
    number: int = msgspec.field(name="n", default=0)
    via: tuple[int, ...] = ()  # numbers of the messages that protobuf nests and JSON inlines
    required: bool | int = msgspec.field(name="req", default=False)
    default: object = msgspec.field(name="d", default=None)
    pointer: bool | int = msgspec.field(name="ptr", default=False)
    always: bool | int = False
    nil: bool | int = False  # whether an empty required list is written as null, like other lists
    list_type: Literal["atomic", "set", "map", ""] = msgspec.field(name="lt", default="")
    keys: tuple[str, ...] = ()
    map_type: str = msgspec.field(name="mt", default="")
    patch_strategy: str = msgspec.field(name="ps", default="")
    patch_key: str = msgspec.field(name="pk", default="")
    go: str = ""  # Go type of a string field, for error messages
    constraints: tuple[str, ...] = msgspec.field(name="c", default=())  # read by `dray.api.constraints`

    @property
    def is_list(self) -> bool:
        return self.type.startswith("[")

    @property
    def is_map(self) -> bool:
        return self.type.startswith("{")

    @property
    def element(self) -> str:
        """The type of an element of a list or map, or the type itself."""
        return self.type[1:] if self.type[0] in "[{" else self.type

    @property
    def reference(self) -> str:
        """The full name of the message that this field or its elements contain; empty for other types."""
        bare = self.type.lstrip("[{")
        return bare[4:] if bare.startswith("ref:") else ""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message: its fields by JSON name."""

    fields: dict[str, Field] = msgspec.field(name="f")
    kinds: tuple[tuple[str, str, str], ...] = msgspec.field(name="gvk", default=())
    map_type: str = msgspec.field(name="mt", default="")
    open: bool = False  # whether unknown fields of a custom resource are preserved
    # Constraints that Kubernetes checks in code, in the same order: the name of a field and its constraints.
    steps: tuple[tuple[str, ...], ...] = msgspec.field(name="k", default=())
    inlined: tuple[str, ...] = msgspec.field(name="in", default=())  # Go structs that JSON inlines, outermost first


@cache
def table() -> Mapping[str, Message]:
    """Return all messages by their full name."""
    data = resources.files("dray.api").joinpath("schema.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, Message])


# The messages of custom resources, added and removed with their definitions, by the name of the root message. The names of
# nested messages start with it and a slash. Different states of a definition have different names.
_custom: dict[str, Mapping[str, Message]] = {}
_derived: dict[str, dict[tuple[str, Callable[[str], Any]], Any]] = {}  # cached results of `derived`, by the same names


def message(name: str) -> Message:
    """Return a message by its full name, built-in or of a custom resource.

    Raises KeyError if there is no such message.
    """
    return table().get(name) or _custom[name.partition("/")[0]][name]


def derived(name: str, derive: Callable[[str], T]) -> T:
    """Return `derive(name)` from a cache. The result is dropped together with the message, because it may be large."""
    kept = _derived.setdefault(name.partition("/")[0], {})
    found = kept.get((name, derive))
    if found is None:
        found = kept[name, derive] = derive(name)
    return cast(T, found)


def is_known(name: str) -> bool:
    """Return whether a message with this full name exists, built in or of a custom resource."""
    return name in _custom or name in table()


def define(name: str, messages: Mapping[str, Message]) -> None:
    """Add the messages of a custom resource, by full name. `name` is the message of the kind itself."""
    _custom[name] = messages


def forget(name: str) -> None:
    """Remove the messages of a custom resource, and everything cached for them; nothing if the name is unknown."""
    _custom.pop(name, None)
    _derived.pop(name, None)
