"""Changes that the server makes to every written custom object, as its definition specifies.

With a status subresource, the status can only be written through it and does not count for the generation.
Without this subresource, the status is an ordinary field.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dray.api.custom.objects import CustomObject, members
from dray.api.resources import Resource
from dray.api.wire import Tree, Wire

_NEVER_COUNTED = ("apiVersion", "kind", "metadata")
_OWN_METADATA = ("annotations", "finalizers", "labels", "ownerReferences", "deletionGracePeriodSeconds")


def prepare_create(resource: Resource, tree: Tree) -> None:
    """Remove the status of a new custom object if it has a status subresource, and set the generation to 1.

    Changes the tree in place.
    """
    if "status" in resource.subresources:
        tree.pop("status", None)
    tree.setdefault("metadata", {})["generation"] = 1


def prepare_update(resource: Resource, tree: Tree, old: Wire, subresource: str) -> None:
    """Revert changes that an update must not make, and increment the generation if a counted field has changed.

    Changes the tree in place. Labels and other metadata do not count, nor does the status if it is a subresource.
    """
    before = members(cast(CustomObject, old))
    if subresource == "status":
        _keep_all_but_status(tree, before, old)
    elif "status" in resource.subresources:
        tree.pop("status", None)
        if "status" in before:
            tree["status"] = before["status"]
    uncounted = (*_NEVER_COUNTED, "status") if "status" in resource.subresources else _NEVER_COUNTED
    changed = _without(tree, uncounted) != _without(before, uncounted)
    generation = cast(CustomObject, old).metadata.generation
    tree.setdefault("metadata", {})["generation"] = generation + changed


def _without(tree: Tree, names: tuple[str, ...]) -> Tree:
    return {name: value for name, value in tree.items() if name not in names}


def _keep_all_but_status(tree: Tree, before: Tree, old: Any) -> None:
    status = tree.get("status", msgspec.UNSET)
    metadata, kept = tree.setdefault("metadata", {}), msgspec.to_builtins(old.metadata)
    for name in _OWN_METADATA:
        metadata.pop(name, None)
        if name in kept:
            metadata[name] = kept[name]
    for name in [name for name in tree if name not in _NEVER_COUNTED]:
        del tree[name]
    tree.update(_without(before, (*_NEVER_COUNTED, "status")))
    if status is not msgspec.UNSET:
        tree["status"] = status
