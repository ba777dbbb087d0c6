"""The ground that every generated wire type stands on.

Wire objects are frozen and hold only other wire objects, tuples and plain values, so the garbage collector need not
look at them (`gc=False`). Unknown fields are refused here; `dray.api.decode` turns the refusal into the message that
names each of them. Left out: what the fields mean, which is `validation` and `defaults`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

Tree = dict[str, Any]  # a JSON object as it was decoded: private to whoever holds it


class Wire(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A message of the Kubernetes API with its wire names as attributes."""


def tree_of(wire: object) -> Tree:
    """A typed object as a tree of dicts and lists that whoever gets it may change."""
    tree: Tree = msgspec.json.decode(msgspec.json.encode(wire))
    return tree


def always(value: T) -> T:
    """A field that is written even when it holds its zero value.

    msgspec omits a value that equals its static default; one made by a function is always written.
    """
    return msgspec.field(default_factory=lambda: value)


def made(factory: Callable[[], T]) -> T:
    """A field whose empty value is built for each object."""
    return msgspec.field(default_factory=factory)


def renamed(name: str, default: Any) -> Any:
    """A field whose wire name is a Python keyword."""
    return msgspec.field(name=name, default=default)
