"""Decides what a claim needs now, from the claim and from facts about its consumers. Pure.

The facts are turned into an event, and the state table (`dray.api.claim_lifecycle`) gives the claim's next state.
What to write follows from the two states. A generated claim whose pod has ended is deleted once it is unused.
Reservations that a component with a disabled gate failed to add are added. Left out: finding the facts
(`claim_facts`).
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from msgspec.structs import replace

from dray.api import podclaims
from dray.api.claim_lifecycle import HOLDING, ClaimEvent, ClaimState, after, state_of
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus


class ConsumerFacts(NamedTuple):
    """Facts about the consumers of a claim."""

    gone: Set[str] = frozenset()  # uids of reservations that are no longer needed
    owner_done: bool = False  # the pod that the claim was generated for is gone or will never run again
    shared: bool = False  # pods that the claim does not list may use it
    # no consumer is listed any more: a workload's owner or a failed binding gave the claim back
    abandoned: bool = False
    occupied: bool = False  # a pod uses the devices, or is about to, and would be left without reservation
    missing: tuple[ResourceClaimConsumerReference, ...] = ()  # reservations that should be there


class Upkeep(NamedTuple):
    """Changes to write, in this order. None means no change.

    `delete` says whether the claim is to be deleted.
    """

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
    """Return the lifecycle event that the facts mean for the claim, or None if nothing needs to change.

    `remaining` are the claim's reservations that stay. `unused` means that no consumer is left, missing, or using the
    devices.
    """
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
    """Return the status with corrected reservations, or None if they are correct.

    `remaining` are the claim's reservations that stay; missing ones are added to them.
    """
    if len(remaining) == len(claim.status.reservedFor) and not facts.missing:
        return None
    return replace(claim.status, reservedFor=(*remaining, *facts.missing))
