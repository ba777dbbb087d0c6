"""What a claim needs right now, decided purely from the claim and from what is known about its consumers.

The states: pending, allocated, reserved; deleting in each of them. Reservations of consumers that are gone are removed;
the last one takes the allocation along, at once or, where pods are not listed, in a second step; a claim without
allocation needs no finalizer; a generated claim whose pod is done is deleted once nobody uses it. Consumers that a
component with a gate off failed to add are added.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, NamedTuple

from dray.api import podclaims
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference


class Facts(NamedTuple):
    """What is known about the consumers of a claim."""

    gone: Set[str] = frozenset()  # uids of reservations that nobody needs any more
    owner_done: bool = False  # the pod that the claim was generated for is gone or will never run again
    shared: bool = False  # pods may use the claim that it does not list
    abandoned: bool = False  # nobody is listed any more: the owner of a workload, or a failed binding, gave it back
    occupied: bool = False  # a pod would be left without reservation while it uses the devices, or is about to
    missing: tuple[ResourceClaimConsumerReference, ...] = ()  # reservations that should be there
    for_any_pod: bool = False  # `reservedForAnyPod` should be set


class Upkeep(NamedTuple):
    """What to write, in this order; None where nothing changes."""

    status: dict[str, Any] | None = None
    finalizers: list[str] | None = None
    delete: bool = False


def upkeep(claim: ResourceClaim, facts: Facts) -> Upkeep:
    remaining = [r for r in claim.status.reservedFor if r.uid not in facts.gone]
    released = len(remaining) < len(claim.status.reservedFor)
    unused = not remaining and not facts.missing and not facts.occupied
    deleting = claim.metadata.deletionTimestamp is not None
    # A shared claim loses its last reservation first and its devices after that: in between, a scheduler must write to
    # it before it binds another pod, and one of the two writes fails.
    due = facts.abandoned or (not facts.shared and (released or deleting))
    deallocate = claim.status.allocation is not None and unused and due
    status: dict[str, Any] | None = None
    if deallocate:
        status = {"reservedFor": None, "allocation": None, "devices": None}
    elif released or facts.missing or facts.for_any_pod:
        status = {"reservedFor": [*map(podclaims.reference_tree, (*remaining, *facts.missing))] or None}
        if facts.for_any_pod:
            status["allocation"] = {"reservedForAnyPod": True}
    # A pending claim may carry the finalizer because a scheduler is about to allocate it; it is left alone until deleted.
    bare = deallocate or (deleting and unused and claim.status.allocation is None)
    finalizers = None
    if bare and podclaims.CLAIM_FINALIZER in claim.metadata.finalizers:
        finalizers = [f for f in claim.metadata.finalizers if f != podclaims.CLAIM_FINALIZER]
    return Upkeep(status, finalizers, delete=facts.owner_done and unused)
