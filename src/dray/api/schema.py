"""The schema table, read once and only when somebody needs it.

Everything that must know a field without a struct asks here: unknown-field paths, strategic merge, server-side apply,
OpenAPI and protobuf. `schema.json` documents its own keys by example; their meaning is in docs/architecture.md.
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
# Parts of a schema that are a schema, or something else in place of one: JSON writes the bare value.
UNIONS = tuple(f"{SCHEMA}{name}" for name in ("OrArray", "OrBool", "OrStringArray"))
ANY = "any"  # a type of custom resources: whatever JSON has


class Field(msgspec.Struct, frozen=True, gc=False):
    """One field of a message."""

    type: str = msgspec.field(name="t")
    number: int = msgspec.field(name="n", default=0)
    via: tuple[int, ...] = ()  # protobuf nests these messages where JSON inlines the field
    required: bool | int = msgspec.field(name="req", default=False)
    default: object = msgspec.field(name="d", default=None)
    pointer: bool | int = msgspec.field(name="ptr", default=False)
    always: bool | int = False
    nil: bool | int = False  # a required list that may be empty is written as null, as other lists are
    list_type: Literal["atomic", "set", "map", ""] = msgspec.field(name="lt", default="")
    keys: tuple[str, ...] = ()
    map_type: str = msgspec.field(name="mt", default="")
    patch_strategy: str = msgspec.field(name="ps", default="")
    patch_key: str = msgspec.field(name="pk", default="")
    go: str = ""  # of a text: its type in Go, which errors name
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
        """The message that this field, or its elements, hold; empty for plain values."""
        bare = self.type.lstrip("[{")
        return bare[4:] if bare.startswith("ref:") else ""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message: its fields by JSON name."""

    fields: dict[str, Field] = msgspec.field(name="f")
    kinds: tuple[tuple[str, str, str], ...] = msgspec.field(name="gvk", default=())
    map_type: str = msgspec.field(name="mt", default="")
    open: bool = False  # of a custom resource: members that the schema does not know are kept
    # Constraints that Kubernetes checks in code, in its order: the name of a field, and what holds for it.
    steps: tuple[tuple[str, ...], ...] = msgspec.field(name="k", default=())
    inlined: tuple[str, ...] = msgspec.field(name="in", default=())  # Go structs that JSON inlines, outermost first


@cache
def table() -> Mapping[str, Message]:
    """All messages by their full name."""
    data = resources.files("dray.api").joinpath("schema.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, Message])


# The messages of custom resources, which come and go with their definitions, by the name of the whole; that of a part begins
# with it and a slash. Names tell one reading of a definition from another.
_custom: dict[str, Mapping[str, Message]] = {}
_derived: dict[str, dict[tuple[str, Callable[[str], Any]], Any]] = {}  # what follows from messages, by the same names


def message(name: str) -> Message:
    return table().get(name) or _custom[name.partition("/")[0]][name]


def derived(name: str, derive: Callable[[str], T]) -> T:
    """What follows from a message, worked out once and kept as long as the message is: that of a definition may be large."""
    kept = _derived.setdefault(name.partition("/")[0], {})
    found = kept.get((name, derive))
    if found is None:
        found = kept[name, derive] = derive(name)
    return cast(T, found)


def is_known(name: str) -> bool:
    return name in _custom or name in table()


def define(name: str, messages: Mapping[str, Message]) -> None:
    """Add the messages of a custom resource."""
    _custom[name] = messages


def forget(name: str) -> None:
    """Take out a custom resource's message, and those of its parts."""
    _custom.pop(name, None)
    _derived.pop(name, None)
