"""Custom objects in memory: typed metadata, and plain JSON values for everything else.

Most objects have only `spec` and `status` besides metadata. For other fields at the top level, a class with these
fields is created on first use, so that custom objects are encoded, compared and replaced like built-in ones.
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
_CLASSES = 1024  # cached classes, one per set of additional top-level fields


class CustomObject(Wire, frozen=True):
    """An object of a kind defined by a CustomResourceDefinition."""

    apiVersion: str = msgspec.field(default_factory=str)
    kind: str = msgspec.field(default_factory=str)
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: Any = UNSET
    status: Any = UNSET


_KNOWN = frozenset(CustomObject.__struct_encode_fields__)
_decoder = msgspec.json.Decoder(CustomObject)


@lru_cache(maxsize=_CLASSES)
def _class(names: tuple[str, ...]) -> type[CustomObject]:
    """Return the class of objects with these additional top-level fields, which can have any name."""
    fields = [(f"member_{index}", Any, msgspec.field(default=UNSET, name=name)) for index, name in enumerate(names)]
    made = msgspec.defstruct("CustomObject", fields, bases=(CustomObject,), frozen=True, gc=False, omit_defaults=True)
    return cast(type[CustomObject], made)


def unfit_name(tree: Tree) -> str | None:
    """Return a top-level name that no class can have (quotes, backslashes, control characters), or None."""
    return next((name for name in tree if _UNFIT.search(name)), None)


def class_of(tree: Tree) -> type[CustomObject]:
    """Return the class with the top-level fields of a tree."""
    more = tree.keys() - _KNOWN
    return _class(tuple(sorted(more))) if more else CustomObject


def from_tree(tree: Tree) -> CustomObject:
    """Convert a tree to an object; its metadata must have been validated."""
    return msgspec.convert(tree, class_of(tree))


def decode(value: bytes) -> CustomObject:
    """Decode an object from its stored bytes, with any top-level fields."""
    try:
        return _decoder.decode(value)
    except msgspec.ValidationError:
        return from_tree(msgspec.json.decode(value))


def members(obj: CustomObject) -> Tree:
    """Return all fields except metadata as a tree. The values are shared with the object and must not be changed."""
    found = zip(obj.__struct_encode_fields__, obj.__struct_fields__, strict=True)
    values = ((name, getattr(obj, attribute)) for name, attribute in found if name != "metadata")
    return {name: value for name, value in values if value is not UNSET}


def whole(obj: CustomObject) -> Tree:
    """Return the object as a tree including metadata, as CEL rules see it."""
    return {**members(obj), "metadata": msgspec.to_builtins(obj.metadata)}
