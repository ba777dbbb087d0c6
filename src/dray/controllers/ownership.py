"""What should happen to an object because of its owners and dependents: decided from facts, without asking anybody.

The rules are Kubernetes': an object with owners lives as long as one of them does; `foregroundDeletion` keeps an owner
until the dependents that block it are gone; `orphan` takes dependents loose. Also here: how owner references are written.
Left out: finding the facts and acting on the decision (`garbage`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from msgspec.structs import replace

from dray.api.objects import Object, control_by
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.api.wire import Tree, tree_of

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class OwnerStanding(Enum):
    """How an owner reference stands."""

    SOLID = "exists, or cannot be judged"
    WAITING = "exists and waits for its dependents to go"
    GONE = "does not exist, or is another object of the same name"


@dataclass(frozen=True)
class Keep:
    """Nothing to do."""


@dataclass(frozen=True)
class Delete:
    propagation: str


@dataclass(frozen=True)
class SetOwners:
    """Write other owner references."""

    owners: tuple[OwnerReference, ...]


@dataclass(frozen=True)
class Unblock:
    """Stop holding up the owners: one of them is held up by this object's own deletion, in a circle."""

    owners: tuple[OwnerReference, ...]


@dataclass(frozen=True)
class RemoveFinalizer:
    finalizer: str


@dataclass(frozen=True)
class Release:
    """Take these dependents loose; the finalizer may go afterwards."""

    dependents: tuple[Object, ...]


@dataclass(frozen=True)
class AwaitDependents:
    """Look at these dependents; the owner waits."""

    dependents: tuple[Object, ...]


Decision = Keep | Delete | SetOwners | Unblock | RemoveFinalizer | Release | AwaitDependents


def is_deleting(meta: ObjectMeta, finalizer: str) -> bool:
    return meta.deletionTimestamp is not None and finalizer in meta.finalizers


def decide_deleting(meta: ObjectMeta, dependents: Sequence[Object]) -> Decision:
    """For an object that is marked for deletion."""
    if ORPHAN in meta.finalizers:
        return Release(tuple(dependents)) if dependents else RemoveFinalizer(ORPHAN)
    if FOREGROUND in meta.finalizers:
        if any(_blocks(dependent, meta.uid) for dependent in dependents):
            return AwaitDependents(tuple(dependents))
        return RemoveFinalizer(FOREGROUND)
    return Keep()


def decide_owned(meta: ObjectMeta, owners: Sequence[OwnerStanding], dependents: Sequence[Object]) -> Decision:
    """For an object that is not; `owners` says how each of its references stands."""
    references = meta.ownerReferences
    if not references:
        return Keep()
    solid = tuple(ref for ref, owner in zip(references, owners, strict=True) if owner is OwnerStanding.SOLID)
    if solid:
        return Keep() if len(solid) == len(references) else SetOwners(solid)
    if OwnerStanding.WAITING in owners and dependents:
        if any(is_deleting(dependent.metadata, FOREGROUND) for dependent in dependents) and _unblocked(references):
            return Unblock(_unblocked(references))
        return Delete("Foreground")
    return Delete(_own_policy(meta))


def controller_reference(owner: Object) -> Tree:
    """The owner reference of what `owner` controls, as a tree."""
    return tree_of(control_by(owner))


def owners_tree(owners: Sequence[OwnerReference]) -> list[Tree]:
    """Owner references as they are written."""
    return [tree_of(ref) for ref in owners]


def _blocks(dependent: Object, owner: str) -> bool:
    return any(ref.uid == owner and ref.blockOwnerDeletion for ref in dependent.metadata.ownerReferences)


def _unblocked(references: Sequence[OwnerReference]) -> tuple[OwnerReference, ...]:
    """The references with nothing blocked; empty if that is so already."""
    if not any(ref.blockOwnerDeletion for ref in references):
        return ()
    return tuple(replace(ref, blockOwnerDeletion=False) for ref in references)


def _own_policy(meta: ObjectMeta) -> str:
    """How the object itself wants its dependents treated."""
    if ORPHAN in meta.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in meta.finalizers else "Background"
