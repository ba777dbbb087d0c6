"""Small changes to trees that several kinds make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dray.api.wire import Tree, Wire

if TYPE_CHECKING:
    from dray.api.types.core import PodSpec
    from dray.api.types.scheduling import PodGroupSpec


def tree_of(object_: Wire | None) -> Tree:
    """Returns an object as a tree; empty for none."""
    found: Tree = {} if object_ is None else msgspec.to_builtins(object_)
    return found


def fill(tree: Tree, name: str, value: Any) -> None:
    """Set a field that means nothing when empty."""
    if not tree.get(name):
        tree[name] = value


def rename(tree: Tree, names: dict[str, str]) -> None:
    """Give fields other names."""
    for old, new in names.items():
        if old in tree:
            tree[new] = tree.pop(old)


def lend(tree: Tree, old: Tree, names: tuple[str, ...]) -> None:
    """Keep what an older version has no words for."""
    for name in names:
        if name in old:
            tree.setdefault(name, old[name])


def add_finalizer(tree: Tree, finalizer: str) -> None:
    """Keep an object from being deleted before its finalizer is removed."""
    metadata = tree.setdefault("metadata", {})
    finalizers = metadata.get("finalizers") or []
    metadata["finalizers"] = finalizers if finalizer in finalizers else [*finalizers, finalizer]


def annotations_of(tree: Tree) -> Tree:
    """Returns the annotations of an object, to be changed."""
    metadata: Tree = tree.setdefault("metadata", {})
    annotations: Tree = metadata.get("annotations") or {}
    metadata["annotations"] = annotations
    return annotations


def keep_priority(spec: Tree, old: PodSpec | PodGroupSpec) -> None:
    """A client that leaves out what the server filled in means what is there."""
    for name in ("priority", "preemptionPolicy"):
        value = getattr(old, name)
        if value is not None:
            spec.setdefault(name, value)
