"""Decides what should happen to an object because of its owners and dependents. Pure.

The rules are Kubernetes': an object with owners lives as long as one of them does; `foregroundDeletion` keeps an
owner until the dependents that block it are gone; `orphan` removes the owner from its dependents. Also here: the form
of owner references. Left out: finding the facts and carrying out the decision (`garbage`).
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
    """State of the owner in an owner reference."""

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
    """Replace the owner references."""

    owners: tuple[OwnerReference, ...]


@dataclass(frozen=True)
class Unblock:
    """Set blockOwnerDeletion to false in these references, because object and owner block each other in a cycle."""

    owners: tuple[OwnerReference, ...]


@dataclass(frozen=True)
class RemoveFinalizer:
    finalizer: str


@dataclass(frozen=True)
class Release:
    """Remove the owner from these dependents, then remove the finalizer."""

    dependents: tuple[Object, ...]


@dataclass(frozen=True)
class AwaitDependents:
    """Queue these dependents; the owner waits for them."""

    dependents: tuple[Object, ...]


OwnershipDecision = Keep | Delete | SetOwners | Unblock | RemoveFinalizer | Release | AwaitDependents


def is_deleting(meta: ObjectMeta, finalizer: str) -> bool:
    return meta.deletionTimestamp is not None and finalizer in meta.finalizers


def decide_deleting(meta: ObjectMeta, dependents: Sequence[Object]) -> OwnershipDecision:
    """Return the decision for an object that is being deleted.

    `dependents` are the objects that name it as owner. Without one of the two finalizers nothing is done.
    """
    if ORPHAN in meta.finalizers:
        return Release(tuple(dependents)) if dependents else RemoveFinalizer(ORPHAN)
    if FOREGROUND in meta.finalizers:
        if any(_blocks(dependent, meta.uid) for dependent in dependents):
            return AwaitDependents(tuple(dependents))
        return RemoveFinalizer(FOREGROUND)
    return Keep()


def decide_owned(meta: ObjectMeta, owners: Sequence[OwnerStanding], dependents: Sequence[Object]) -> OwnershipDecision:
    """Return the decision for an object that is not being deleted; `owners` is the state of each owner reference.

    If at least one owner stays, references to all others are removed; if none stays, the object is deleted.
    """
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
    """Return the owner reference for objects that `owner` controls, as a tree."""
    return tree_of(control_by(owner))


def owners_tree(owners: Sequence[OwnerReference]) -> list[Tree]:
    """Return owner references as trees."""
    return [tree_of(ref) for ref in owners]


def _blocks(dependent: Object, owner: str) -> bool:
    return any(ref.uid == owner and ref.blockOwnerDeletion for ref in dependent.metadata.ownerReferences)


def _unblocked(references: Sequence[OwnerReference]) -> tuple[OwnerReference, ...]:
    """Return the references with blockOwnerDeletion set to false, or () if all are false already."""
    if not any(ref.blockOwnerDeletion for ref in references):
        return ()
    return tuple(replace(ref, blockOwnerDeletion=False) for ref in references)


def _own_policy(meta: ObjectMeta) -> str:
    """Return the deletion propagation policy that the object's own finalizers ask for.

    Returns "Orphan", "Foreground", or "Background" if the object has neither finalizer.
    """
    if ORPHAN in meta.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in meta.finalizers else "Background"
