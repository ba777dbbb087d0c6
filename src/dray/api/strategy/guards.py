"""Fields behind feature gates: removed from objects while the gate is off, unless the object already uses the
feature.

As in Kubernetes, any use in the old object counts: an update of a claim that uses prioritized alternatives
somewhere can add another alternative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from dray.api.gates import FeatureGates
from dray.api.kind import Resource
from dray.api.places import finder, present
from dray.api.trees import tree_of
from dray.api.wire import Tree, Wire


class Dropped(NamedTuple):
    """A field that was removed because its feature gate is off: the name of the field, without path, and the gate."""

    field: str
    gate: str

    def __str__(self) -> str:
        return f"{self.field} is dropped: the feature gate {self.gate} is off"


class _Disabled(NamedTuple):
    """The fields behind a kind's disabled gates, and a function that tests whether a tree has any of them."""

    guards: tuple[tuple[str, tuple[str, ...]], ...]
    are_there: Callable[[Tree], bool]  # whether a tree has any of these fields


NOTHING_DROPPED: tuple[Dropped, ...] = ()


@cache
def _disabled(resource: Resource, served: frozenset[str]) -> _Disabled | None:
    """Return the fields of a kind behind gates that are not in `served`, or None if no field is affected."""
    guards = tuple((gate, places) for gate, places in resource.guards.items() if gate not in served)
    return _Disabled(guards, finder(place for _, places in guards for place in places)) if guards else None


def drop_disabled(resource: Resource, tree: Tree, old: Wire | None, gates: FeatureGates) -> tuple[Dropped, ...]:
    """Remove the fields of disabled features, in place. Returns the removed fields that had a value.

    The fields of a gate are kept if `old` has a value in one of them.
    """
    disabled = _disabled(resource, gates.all_served)
    if disabled is None or not disabled.are_there(tree):
        return NOTHING_DROPPED
    before: Tree | None = None
    dropped: dict[Dropped, None] = {}
    for gate, places in disabled.guards:
        found = _present(tree, places)
        if not found:
            continue
        if before is None:
            before = tree_of(old)
        if any(holder[name] for holder, name in _present(before, places)):
            continue
        for holder, name in found:
            if holder[name]:
                dropped[Dropped(name, gate)] = None
            del holder[name]
    return tuple(dropped) if dropped else NOTHING_DROPPED


def _present(tree: Tree, places: tuple[str, ...]) -> list[tuple[Tree, str]]:
    return [found for place in places for found in present(tree, place)]


def is_guarded(resource: Resource, gates: FeatureGates) -> bool:
    """Return whether objects of a kind can have fields that are removed because of a disabled gate."""
    return _disabled(resource, gates.all_served) is not None
