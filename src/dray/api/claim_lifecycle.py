"""The life of a ResourceClaim, as one table: its states, what happens to it, and what it is afterwards.

`TRANSITIONS` is the whole of it. Scheduler, claim controller and nodes ask it what may happen to a claim (`allows`), and
the claim controller derives what it writes from the state that comes after. A claim that is deleted keeps its devices
until nobody uses them; a finalizer keeps it that long. Left out: who may use a claim (`claim_access`), and finding out
whether somebody still does (`dray.controllers.claim_facts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec.structs import replace

from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus


class ClaimState(StrEnum):
    """What a claim is. The last three are those of a claim that somebody has deleted."""

    PENDING = "pending"  # no devices
    ALLOCATED = "allocated"  # devices, and nobody is listed as consumer
    RESERVED = "reserved"  # devices, and consumers are listed
    DELETING = "deleting"
    DELETING_ALLOCATED = "deleting-allocated"
    DELETING_RESERVED = "deleting-reserved"
    GONE = "gone"  # nothing keeps it any more


class ClaimEvent(StrEnum):
    """What happens to a claim."""

    ALLOCATE = "allocate"  # the scheduler gives it devices and its first consumer, in one write
    RESERVE = "reserve"  # the scheduler, or the claim controller for a pod that has its node, adds a consumer
    RELEASE = "release"  # a consumer is gone, and others stay
    RELEASE_LAST = "release-last"  # the last consumer is gone, and nobody else can be using the devices
    RELEASE_SHARED = "release-shared"  # the last one listed is gone, but pods that are not listed may use the devices
    ABANDON = "abandon"  # nobody is listed, and nobody needs the devices, or the claim
    DELETE = "delete"  # somebody deletes it


S, E = ClaimState, ClaimEvent

# A shared claim loses its last reservation first and its devices after that: in between, a scheduler must write to it
# before it binds another pod, and one of the two writes fails.
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
IDLE = frozenset({S.ALLOCATED, S.DELETING_ALLOCATED})  # states with devices that nobody is listed for


def state_of(claim: ResourceClaim | None) -> ClaimState:
    """What a claim is right now; one that does not exist is gone."""
    if claim is None:
        return S.GONE
    deleting = claim.metadata.deletionTimestamp is not None
    if claim.status.allocation is None:
        return S.DELETING if deleting else S.PENDING
    if not claim.status.reservedFor:
        return S.DELETING_ALLOCATED if deleting else S.ALLOCATED
    return S.DELETING_RESERVED if deleting else S.RESERVED


def has_devices(claim: ResourceClaim | None) -> bool:
    """Whether a claim is in one of the `HOLDING` states."""
    return claim is not None and claim.status.allocation is not None


def allows(claim: ResourceClaim, event: ClaimEvent) -> bool:
    """Whether this may happen to a claim as it is."""
    return event in TRANSITIONS[state_of(claim)]


def after(state: ClaimState, event: ClaimEvent | None) -> ClaimState:
    """The state after an event; the same one where nothing happens, or nothing that concerns this state."""
    return TRANSITIONS[state].get(event, state) if event is not None else state


def with_consumers(claim: ResourceClaim, users: Sequence[ResourceClaimConsumerReference]) -> ResourceClaim:
    """The claim when it is reserved for these; reserved for nobody, it has no devices either."""
    if tuple(users) == claim.status.reservedFor:
        return claim
    status = replace(claim.status, reservedFor=tuple(users)) if users else ResourceClaimStatus()
    return replace(claim, status=status)
