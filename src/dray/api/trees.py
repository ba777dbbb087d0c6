"""Small changes to trees, used by several kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dray.api.wire import Tree, Wire

if TYPE_CHECKING:
    from dray.api.types.core import PodSpec
    from dray.api.types.scheduling import PodGroupSpec


def tree_of(object_: Wire | None) -> Tree:
    """Return an object as a tree; an empty dict for None."""
    found: Tree = {} if object_ is None else msgspec.to_builtins(object_)
    return found


def fill(tree: Tree, name: str, value: Any) -> None:
    """Set a field, in place, if it is missing or empty (also 0 or False)."""
    if not tree.get(name):
        tree[name] = value


def rename(tree: Tree, names: dict[str, str]) -> None:
    """Rename fields of a tree, in place, from the keys of `names` to its values. Missing fields are ignored."""
    for old, new in names.items():
        if old in tree:
            tree[new] = tree.pop(old)


def lend(tree: Tree, old: Tree, names: tuple[str, ...]) -> None:
    """Copy fields that are missing in a tree from the old object, because an older version lacks them.

    Changes the tree in place. Fields that the old object lacks are left out.
    """
    for name in names:
        if name in old:
            tree.setdefault(name, old[name])


def add_finalizer(tree: Tree, finalizer: str) -> None:
    """Add a finalizer to an object, in place, unless it is already present."""
    metadata = tree.setdefault("metadata", {})
    finalizers = metadata.get("finalizers") or []
    metadata["finalizers"] = finalizers if finalizer in finalizers else [*finalizers, finalizer]


def annotations_of(tree: Tree) -> Tree:
    """Return the annotations of an object for modification; creates them if missing."""
    metadata: Tree = tree.setdefault("metadata", {})
    annotations: Tree = metadata.get("annotations") or {}
    metadata["annotations"] = annotations
    return annotations


def keep_priority(spec: Tree, old: PodSpec | PodGroupSpec) -> None:
    """Restore priority and preemptionPolicy from the old spec if the client omitted them."""
    for name in ("priority", "preemptionPolicy"):
        value = getattr(old, name)
        if value is not None:
            spec.setdefault(name, value)
