"""Life cycle of a ResourceClaim as a table of states and events.

`TRANSITIONS` is the complete life cycle. The scheduler, the claim controller and nodes ask `allows` which events
are possible; the claim controller derives its writes from the next state. A deleted claim keeps its devices until
it has no users; a finalizer prevents its removal until then. `claim_access` decides who can use a claim;
`dray.controllers.claim_facts` determines who still uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec.structs import replace

from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus


class ClaimState(StrEnum):
    """State of a claim. The states starting with DELETING are those of claims with a deletionTimestamp."""

    PENDING = "pending"  # not allocated
    ALLOCATED = "allocated"  # allocated, without consumers in reservedFor
    RESERVED = "reserved"  # allocated, with consumers in reservedFor
    DELETING = "deleting"
    DELETING_ALLOCATED = "deleting-allocated"
    DELETING_RESERVED = "deleting-reserved"
    GONE = "gone"  # removed


class ClaimEvent(StrEnum):
    """Event that changes the state of a claim."""

    ALLOCATE = "allocate"  # the scheduler allocates the claim and adds the first consumer, in one write
    RESERVE = "reserve"  # the scheduler, or the claim controller for a pod with a node, adds a consumer
    RELEASE = "release"  # a consumer is removed, others remain
    RELEASE_LAST = "release-last"  # the last consumer is removed, and no other pod can be using the devices
    RELEASE_SHARED = "release-shared"  # the last listed consumer is removed, but unlisted pods may use the devices
    ABANDON = "abandon"  # without consumers; the devices, or the deleted claim, are no longer needed
    DELETE = "delete"  # a client deletes the claim


S, E = ClaimState, ClaimEvent

# A shared claim first loses its last reservation and later its allocation. In between, a scheduler must write to the
# claim before it binds another pod, so one of the two conflicting writes fails.
TRANSITIONS: Mapping[ClaimState, Mapping[ClaimEvent, ClaimState]] = {
    S.PENDING: {E.ALLOCATE: S.RESERVED, E.DELETE: S.DELETING},
    S.ALLOCATED: {E.RESERVE: S.RESERVED, E.ABANDON: S.PENDING, E.DELETE: S.DELETING_ALLOCATED},
    S.RESERVED: {
        E.RESERVE: S.RESERVED,
        E.RELEASE: S.RESERVED,
        E.RELEASE_LAST: S.PENDING,
        E.RELEASE_SHARED: S.ALLOCATED,
        E.DELETE: S.DELETING_RESERVED,
    },
    S.DELETING: {E.ABANDON: S.GONE},
    S.DELETING_ALLOCATED: {E.ABANDON: S.GONE},
    S.DELETING_RESERVED: {
        E.RELEASE: S.DELETING_RESERVED,
        E.RELEASE_LAST: S.GONE,
        E.RELEASE_SHARED: S.DELETING_ALLOCATED,
    },
    S.GONE: {},
}

HOLDING = frozenset({S.ALLOCATED, S.RESERVED, S.DELETING_ALLOCATED, S.DELETING_RESERVED})  # states with devices
IDLE = frozenset({S.ALLOCATED, S.DELETING_ALLOCATED})  # states with devices but without consumers


def state_of(claim: ResourceClaim | None) -> ClaimState:
    """Return the current state of a claim; GONE for None."""
    if claim is None:
        return S.GONE
    deleting = claim.metadata.deletionTimestamp is not None
    if claim.status.allocation is None:
        return S.DELETING if deleting else S.PENDING
    if not claim.status.reservedFor:
        return S.DELETING_ALLOCATED if deleting else S.ALLOCATED
    return S.DELETING_RESERVED if deleting else S.RESERVED


def has_devices(claim: ResourceClaim | None) -> bool:
    """Return whether a claim is allocated, so in one of the `HOLDING` states; False for None."""
    return claim is not None and claim.status.allocation is not None


def allows(claim: ResourceClaim, event: ClaimEvent) -> bool:
    """Return whether an event is possible in the current state of a claim."""
    return event in TRANSITIONS[state_of(claim)]


def after(state: ClaimState, event: ClaimEvent | None) -> ClaimState:
    """Return the state after an event; the same state for None or an event that is not possible in this state."""
    return TRANSITIONS[state].get(event, state) if event is not None else state


def with_consumers(claim: ResourceClaim, users: Sequence[ResourceClaimConsumerReference]) -> ResourceClaim:
    """Return the claim reserved for these consumers. Without consumers, its status is empty, so it is deallocated."""
    if tuple(users) == claim.status.reservedFor:
        return claim
    status = replace(claim.status, reservedFor=tuple(users)) if users else ResourceClaimStatus()
    return replace(claim, status=status)
