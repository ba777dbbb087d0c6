"""Defaults of Kubernetes objects, applied to trees of the stored version.

A kind lists its defaults by path; defaults that depend on other fields are set by a function of the kind.
`strategy` sets the values that the server determines at creation (status, generation, finalizers); admission sets
others (priority, tolerations of every pod).
"""

from __future__ import annotations

import copy
import time
from functools import cache
from typing import NamedTuple

from dray.api import schema
from dray.api.gates import FeatureGates
from dray.api.kind import NOW
from dray.api.places import steps, values
from dray.api.resources import Resource
from dray.api.times import timestamp
from dray.api.wire import Tree


class _Default(NamedTuple):
    """A default value with the path of the objects that get it."""

    way: tuple[tuple[str, str, bool], ...]  # name, "[]", "{}" or "", and whether a missing object is created
    name: str
    value: object
    is_empty_unset: bool


def apply_defaults(resource: Resource, tree: Tree, gates: FeatureGates, now: str | None = None) -> None:
    """Add the defaults to a stored tree, in place. `now` is the timestamp of new taints, or None.

    Fields of disabled features get defaults too; `strategy` removes them later.
    """
    stored = resource.home
    for default in _compiled(stored) if stored.defaults else ():
        _apply(default, tree, now)
    if stored.more_defaults is not None:
        stored.more_defaults(tree)


def has_defaults(resource: Resource) -> bool:
    """Return whether a kind has any defaults."""
    return bool(resource.home.defaults) or resource.home.more_defaults is not None


@cache
def _compiled(resource: Resource) -> tuple[_Default, ...]:
    return tuple(_default(resource.message(), path, value) for path, value in resource.defaults.items())


def _default(message: str, path: str, value: object) -> _Default:
    """Return the default for a path. Objects on the way that are not pointers in Kubernetes always exist."""
    way = []
    for name, behind in steps(path).way:
        field = schema.message(message).fields[name]
        way.append((name, behind, not behind and not field.pointer))
        message = field.reference
    name = steps(path).last[0]
    return _Default(tuple(way), name, value, not schema.message(message).fields[name].pointer)


def _apply(default: _Default, tree: Tree, now: str | None) -> None:
    found = [tree]
    for name, behind, is_there in default.way:
        if is_there:
            found = [holder.setdefault(name, {}) for holder in found]
        else:
            found = [inner for holder in found if name in holder for inner in values(holder[name], behind)]
    name, value = default.name, default.value
    for holder in found:
        if name not in holder or (default.is_empty_unset and not holder[name]):
            holder[name] = (now or timestamp(time.time())) if value is NOW else copy.deepcopy(value)
