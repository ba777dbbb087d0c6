"""Base class of all generated wire types.

Wire objects are frozen and contain only wire objects, tuples and plain values, so the garbage collector need not
track them (`gc=False`). Decoding rejects unknown fields; `dray.api.decode` creates the error message that names
them. `validation` and `defaults` define the meaning of fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

Tree = dict[str, Any]  # a decoded JSON object; owned by one holder, who may modify it


class Wire(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A message of the Kubernetes API, with the wire names as attributes."""


def tree_of(wire: object) -> Tree:
    """Return a typed object as a new tree of dicts and lists, which the caller may modify."""
    tree: Tree = msgspec.json.decode(msgspec.json.encode(wire))
    return tree


def always(value: T) -> T:
    """Return a field that is encoded even if it has its default value.

    msgspec omits a value that equals its static default, but never one with a default factory.
    """
    return msgspec.field(default_factory=lambda: value)


def made(factory: Callable[[], T]) -> T:
    """Return a field whose default is created for each object by `factory`."""
    return msgspec.field(default_factory=factory)


def renamed(name: str, default: Any) -> Any:
    """Return a field with this wire name, for names that are Python keywords."""
    return msgspec.field(name=name, default=default)
