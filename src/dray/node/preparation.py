"""The life of a claim on a node: wanted, prepared, left, unprepared. Pure: entries of the checkpoint in and out.

Drivers are called only between two states that are on disk, so that wherever the agent is killed the next one knows what
may have happened: of a claim that is PREPARING or UNPREPARING nobody knows whether its driver has done it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from msgspec.structs import replace

from dray.node.checkpoint import CheckpointedDevice, DriverShare, PreparedClaim
from dray.node.drivers import ClaimId


class PreparationState(Enum):
    ABSENT = "absent"
    PREPARING = "preparing"
    PREPARED = "prepared"
    UNPREPARING = "unpreparing"


class PreparationEvent(Enum):
    WANTED = "wanted"  # by one more pod
    ANSWERED = "answered"  # all drivers have prepared their share
    LEFT = "left"  # by the last pod
    UNPREPARED = "unprepared"  # by all drivers


# What the functions below do, as a table: for readers, and for the tests that hold the functions to it.
TRANSITIONS: dict[tuple[PreparationState, PreparationEvent], PreparationState] = {
    (PreparationState.ABSENT, PreparationEvent.WANTED): PreparationState.PREPARING,
    (PreparationState.PREPARING, PreparationEvent.WANTED): PreparationState.PREPARING,
    (PreparationState.PREPARING, PreparationEvent.ANSWERED): PreparationState.PREPARED,
    (PreparationState.PREPARING, PreparationEvent.LEFT): PreparationState.UNPREPARING,
    (PreparationState.PREPARED, PreparationEvent.WANTED): PreparationState.PREPARED,
    (PreparationState.PREPARED, PreparationEvent.LEFT): PreparationState.UNPREPARING,
    (PreparationState.UNPREPARING, PreparationEvent.WANTED): PreparationState.PREPARING,
    (PreparationState.UNPREPARING, PreparationEvent.LEFT): PreparationState.UNPREPARING,
    (PreparationState.UNPREPARING, PreparationEvent.UNPREPARED): PreparationState.ABSENT,
}


def state_of(claim: PreparedClaim | None) -> PreparationState:
    if claim is None:
        return PreparationState.ABSENT
    if claim.leaving:
        return PreparationState.UNPREPARING
    return PreparationState.PREPARED if claim.prepared else PreparationState.PREPARING


def wanted(
    claim: PreparedClaim | None, identity: ClaimId, drivers: Mapping[str, bool], pod: str, entries: tuple[str, ...]
) -> PreparedClaim:
    """A pod wants a claim of these drivers, each with whether its share stays when nobody uses it.

    What was on its way out is prepared again, since part of it may be gone.
    """
    namespace, name, uid = identity
    if claim is None:
        shares = tuple(DriverShare(driver, stays=stays) for driver, stays in drivers.items())
        return PreparedClaim(uid, namespace, name, {pod: entries}, shares)
    shares = claim.shares
    if claim.leaving:
        both = {**drivers, **{share.driver: share.stays for share in claim.shares}}
        shares = tuple(DriverShare(driver, stays=stays) for driver, stays in both.items())
    return replace(claim, pods=claim.pods | {pod: entries}, shares=shares, leaving=False)


def answered(claim: PreparedClaim, devices: Mapping[str, tuple[CheckpointedDevice, ...]]) -> PreparedClaim:
    """Some drivers have prepared their share."""
    shares = tuple(replace(s, devices=devices[s.driver]) if s.driver in devices else s for s in claim.shares)
    return replace(claim, shares=shares)


def left(claim: PreparedClaim, pod: str) -> PreparedClaim:
    """A pod has no container any more that could use the claim. The last one stays until the claim is unprepared."""
    if len(claim.pods) > 1:
        return replace(claim, pods={uid: entries for uid, entries in claim.pods.items() if uid != pod})
    return replace(claim, shares=tuple(replace(share, devices=None) for share in claim.shares), leaving=True)


def unprepared(claim: PreparedClaim, drivers: Iterable[str]) -> PreparedClaim | None:
    """Some drivers have unprepared their share; None when all have that must."""
    shares = tuple(share for share in claim.shares if share.driver not in set(drivers) and not share.stays)
    return replace(claim, shares=shares) if shares else None
