"""What an object says when its author is silent: Kubernetes' defaults, on trees of the stored version.

A kind names its defaults by place; what depends on other fields is a function of the kind. Left out: what is not a default
but a decision of the server at creation (status, generation, finalizers: `strategy`) or of admission (priority,
tolerations of every pod).
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
    """A value for the objects at the end of a way."""

    way: tuple[tuple[str, str, bool], ...]  # name, what is behind it, and whether it is there in any case
    name: str
    value: object
    is_empty_unset: bool


def apply_defaults(resource: Resource, tree: Tree, gates: FeatureGates, now: str | None = None) -> None:
    """Fill in what a stored tree leaves open, in place. `now` is the time that new taints carry.

    Fields of disabled features get their defaults too: whether they stay is decided later, by `strategy`.
    """
    stored = resource.home
    for default in _compiled(stored) if stored.defaults else ():
        _apply(default, tree, now)
    if stored.more_defaults is not None:
        stored.more_defaults(tree)


def has_defaults(resource: Resource) -> bool:
    """Whether anything is filled in for objects of a kind."""
    return bool(resource.home.defaults) or resource.home.more_defaults is not None


@cache
def _compiled(resource: Resource) -> tuple[_Default, ...]:
    return tuple(_default(resource.message(), path, value) for path, value in resource.defaults.items())


def _default(message: str, path: str, value: object) -> _Default:
    """Find out along the schema what a path means: what is no pointer in Kubernetes is there, and unset when empty."""
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
