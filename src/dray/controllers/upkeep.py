"""What a claim needs right now, decided purely from the claim and who is known to be gone.

The states: pending, allocated, reserved; deleting in each of them. Reservations of pods that are gone are removed; the
last one takes the allocation along; a claim without allocation needs no finalizer; a generated claim whose pod is done
is deleted once nobody uses it.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, NamedTuple

from dray.api import podclaims
from dray.api.types.resource import ResourceClaim


class Upkeep(NamedTuple):
    """What to write, in this order; None where nothing changes."""

    status: dict[str, Any] | None = None
    finalizers: list[str] | None = None
    delete: bool = False


def upkeep(claim: ResourceClaim, gone: Set[str], owner_done: bool) -> Upkeep:
    """`gone` are the uids of consumers that will not use the claim any more."""
    remaining = [r for r in claim.status.reservedFor if r.uid not in gone]
    allocation = claim.status.allocation
    released = len(remaining) < len(claim.status.reservedFor)
    unused = not remaining
    deleting = claim.metadata.deletionTimestamp is not None
    deallocate = allocation is not None and unused and (released or deleting)
    status: dict[str, Any] | None = None
    if released:
        status = {"reservedFor": [podclaims.reference_tree(r) for r in remaining] or None}
    if deallocate:
        status = {"reservedFor": None, "allocation": None, "devices": None}
    # A pending claim may carry the finalizer because a scheduler is about to allocate it; it is left alone until deleted.
    bare = deallocate or (deleting and unused and allocation is None)
    finalizers = None
    if bare and podclaims.CLAIM_FINALIZER in claim.metadata.finalizers:
        finalizers = [f for f in claim.metadata.finalizers if f != podclaims.CLAIM_FINALIZER]
    return Upkeep(status, finalizers, delete=owner_done and unused)
