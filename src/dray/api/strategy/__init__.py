"""Changes that the server makes to every written object, regardless of the client's input.

Clients of the main resource cannot change the status; clients of `/status` cannot change anything else. The
generation counts changes of the spec. Fields of disabled feature gates are removed unless the object already uses
them. All functions change trees of the stored version, after defaulting and admission and before validation.
Names, UIDs and timestamps are set by the server; rejecting objects is the task of `validation`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.gates import FeatureGates
from dray.api.resources import Resource
from dray.api.strategy import custom
from dray.api.strategy.deprecation import deprecation
from dray.api.strategy.guards import NOTHING_DROPPED, Dropped, drop_disabled, is_guarded
from dray.api.strategy.warnings import unused, warnings
from dray.api.wire import Tree, Wire

__all__ = [
    "Dropped",
    "adds_nothing",
    "allows_unconditional_update",
    "deprecation",
    "prepare_create",
    "prepare_update",
    "stands",
    "unused",
    "warnings",
]

_STATUS_PARTS = ("status", "approval")  # subresources that can only change the status
_OWN_STATUS = ("annotations", "finalizers", "labels", "ownerReferences", "deletionGracePeriodSeconds")


def prepare_create(resource: Resource, tree: Tree, gates: FeatureGates) -> tuple[Dropped, ...]:
    """Apply the server's rules to a new object, in place. Returns the fields removed because a gate is off."""
    if resource.custom is not None:
        custom.prepare_create(resource, tree)
        return NOTHING_DROPPED
    stored = resource.home
    metadata = tree.setdefault("metadata", {})
    metadata.pop("generation", None)
    if stored.generation is not None:
        metadata["generation"] = 1
    if "status" in resource.subresources and not stored.has_status_at_creation:
        tree.pop("status", None)
    dropped = drop_disabled(stored, tree, None, gates)
    if stored.on_create is not None:
        stored.on_create(tree)
    return dropped


def adds_nothing(resource: Resource) -> bool:
    """Return whether `prepare_create` leaves every object of a kind unchanged with all feature gates."""
    stored = resource.home
    return resource.custom is None and (
        stored.generation is None
        and stored.on_create is None
        and "status" not in resource.subresources
        and not stored.guards
    )


def prepare_update(
    resource: Resource, tree: Tree, old: Wire, subresource: str, gates: FeatureGates
) -> tuple[Dropped, ...]:
    """Revert, in place, changes that an update of the resource or subresource must not make.

    Returns the fields that were removed because a feature gate is off.
    """
    if resource.custom is not None:
        custom.prepare_update(resource, tree, old, subresource)
        return NOTHING_DROPPED
    stored = resource.home
    if subresource in _STATUS_PARTS:
        _keep_all_but_status(stored, tree, old)
    elif "status" in resource.subresources:
        _keep(tree, old, "status")
    dropped = drop_disabled(stored, tree, old, gates)
    if prepare := stored.on_update.get(subresource):
        prepare(tree, old)
    _count(stored, tree, old, counted=() if subresource == "status" else stored.generation or ())
    return dropped


def stands(resource: Resource, status: Wire, old: Any, gates: FeatureGates) -> bool:
    """Return whether `prepare_update` would leave a typed status unchanged; False if unknown."""
    stored = resource.home
    if stored.settles is not None:
        return stored.settles(status, old.status, gates)
    return "status" not in stored.on_update and not is_guarded(stored, gates)


def _keep(tree: Tree, old: Wire, name: str) -> None:
    value = getattr(old, name)
    if value is None:
        tree.pop(name, None)
    else:
        tree[name] = msgspec.to_builtins(value)


def _keep_all_but_status(resource: Resource, tree: Tree, old: Wire) -> None:
    _keep(tree, old, "spec")
    if not resource.status_writes_metadata:
        before = msgspec.to_builtins(old.metadata)  # type: ignore[attr-defined]  # every kind has metadata
        metadata = tree.setdefault("metadata", {})
        for name in _OWN_STATUS:
            metadata.pop(name, None)
            if name in before:
                metadata[name] = before[name]


def _count(resource: Resource, tree: Tree, old: Any, counted: tuple[str, ...]) -> None:
    """Set the generation: one higher if a counted field has changed, otherwise the old value."""
    metadata = tree.setdefault("metadata", {})
    metadata.pop("generation", None)
    if not old.metadata.generation:
        return
    changed = False
    if counted:
        part = msgspec.convert({name: tree[name] for name in counted if name in tree}, type(old))
        changed = any(getattr(part, name) != getattr(old, name) for name in counted)
        if resource.is_steered_by_annotations and (metadata.get("annotations") or {}) != old.metadata.annotations:
            changed = True
    metadata["generation"] = old.metadata.generation + changed


def allows_unconditional_update(resource: Resource, version: str) -> bool:
    """Return whether an update may omit the resourceVersion that it is based on."""
    return resource.custom is None and version not in resource.conditional
