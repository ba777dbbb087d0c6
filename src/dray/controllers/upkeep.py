"""What a claim needs right now, decided purely from the claim and from what is known about its consumers.

The facts say what happened to the claim; the table of its life (`dray.api.claim_lifecycle`) says what it becomes by that;
what is written follows from the two states. A generated claim whose pod is done is deleted once nobody uses it. Consumers
that a component with a gate off failed to add are added. Left out: finding out the facts (`claim_facts`).
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from msgspec.structs import replace

from dray.api import podclaims
from dray.api.claim_lifecycle import HOLDING, ClaimEvent, ClaimState, after, state_of
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus


class ConsumerFacts(NamedTuple):
    """What is known about the consumers of a claim."""

    gone: Set[str] = frozenset()  # uids of reservations that nobody needs any more
    owner_done: bool = False  # the pod that the claim was generated for is gone or will never run again
    shared: bool = False  # pods may use the claim that it does not list
    abandoned: bool = False  # nobody is listed any more: the owner of a workload, or a failed binding, gave it back
    occupied: bool = False  # a pod would be left without reservation while it uses the devices, or is about to
    missing: tuple[ResourceClaimConsumerReference, ...] = ()  # reservations that should be there


class Upkeep(NamedTuple):
    """What to write, in this order; None where nothing changes."""

    status: ResourceClaimStatus | None = None
    finalizers: list[str] | None = None
    delete: bool = False


def upkeep(claim: ResourceClaim, facts: ConsumerFacts) -> Upkeep:
    state, remaining = state_of(claim), [r for r in claim.status.reservedFor if r.uid not in facts.gone]
    unused = not remaining and not facts.missing and not facts.occupied
    becomes = after(state, _event(claim, facts, remaining, unused=unused))
    is_freed = state in HOLDING and becomes not in HOLDING
    status = ResourceClaimStatus() if is_freed else _reservations(claim, facts, remaining)
    finalizers = None
    # A pending claim may carry the finalizer because a scheduler is about to allocate it; it is left alone.
    if (is_freed or becomes is ClaimState.GONE) and podclaims.CLAIM_FINALIZER in claim.metadata.finalizers:
        finalizers = [f for f in claim.metadata.finalizers if f != podclaims.CLAIM_FINALIZER]
    return Upkeep(status, finalizers, delete=facts.owner_done and unused)


def _event(
    claim: ResourceClaim, facts: ConsumerFacts, remaining: list[ResourceClaimConsumerReference], *, unused: bool
) -> ClaimEvent | None:
    """What the facts mean for the claim."""
    if len(remaining) < len(claim.status.reservedFor):
        if remaining or facts.missing:
            return ClaimEvent.RELEASE
        return ClaimEvent.RELEASE_SHARED if facts.shared or facts.occupied else ClaimEvent.RELEASE_LAST
    is_deleted = claim.metadata.deletionTimestamp is not None
    if unused and (facts.abandoned or (is_deleted and not facts.shared)):
        return ClaimEvent.ABANDON
    return ClaimEvent.RESERVE if facts.missing else None


def _reservations(
    claim: ResourceClaim, facts: ConsumerFacts, remaining: list[ResourceClaimConsumerReference]
) -> ResourceClaimStatus | None:
    """The reservations as they should be, where that is a change."""
    if len(remaining) == len(claim.status.reservedFor) and not facts.missing:
        return None
    return replace(claim.status, reservedFor=(*remaining, *facts.missing))
