"""Custom objects in memory: typed metadata, and beside it the values that JSON has.

Nearly all have `spec` and `status` and nothing else. Whatever else stands at the top of an object gets a class with
those members, made when it is first seen, so that custom objects are encoded, compared and replaced like all others.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET

from dray.api.types.meta import ObjectMeta
from dray.api.wire import Tree, Wire

_UNFIT = re.compile(r'[\\"\x00-\x1f]')
_CLASSES = 1024  # different sets of further members that are remembered


class CustomObject(Wire, frozen=True):
    """An object of a kind that a CustomResourceDefinition describes."""

    apiVersion: str = msgspec.field(default_factory=str)
    kind: str = msgspec.field(default_factory=str)
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: Any = UNSET
    status: Any = UNSET


_KNOWN = frozenset(CustomObject.__struct_encode_fields__)
_decoder = msgspec.json.Decoder(CustomObject)


@lru_cache(maxsize=_CLASSES)
def _class(names: tuple[str, ...]) -> type[CustomObject]:
    """The class of objects that have further members at the top. Attributes are numbered: names can be any text."""
    fields = [(f"member_{index}", Any, msgspec.field(default=UNSET, name=name)) for index, name in enumerate(names)]
    made = msgspec.defstruct("CustomObject", fields, bases=(CustomObject,), frozen=True, gc=False, omit_defaults=True)
    return cast(type[CustomObject], made)


def unfit_name(tree: Tree) -> str | None:
    """A name at the top of a tree that no class can have a member for: with quotes, backslashes or control characters."""
    return next((name for name in tree if _UNFIT.search(name)), None)


def class_of(tree: Tree) -> type[CustomObject]:
    """The class that a tree fits into."""
    more = tree.keys() - _KNOWN
    return _class(tuple(sorted(more))) if more else CustomObject


def from_tree(tree: Tree) -> CustomObject:
    """The object of a tree whose metadata was checked."""
    return msgspec.convert(tree, class_of(tree))


def decode(value: bytes) -> CustomObject:
    """The object of stored bytes."""
    try:
        return _decoder.decode(value)
    except msgspec.ValidationError:
        return from_tree(msgspec.json.decode(value))


def members(obj: CustomObject) -> Tree:
    """Everything but metadata, as the trees that the object shares: to be read, never changed."""
    found = zip(obj.__struct_encode_fields__, obj.__struct_fields__, strict=True)
    values = ((name, getattr(obj, attribute)) for name, attribute in found if name != "metadata")
    return {name: value for name, value in values if value is not UNSET}


def whole(obj: CustomObject) -> Tree:
    """The object as rules see it: metadata as a tree too."""
    return {**members(obj), "metadata": msgspec.to_builtins(obj.metadata)}
