"""State machine of a claim on a node: wanted, prepared, left, unprepared. Pure: takes and returns checkpoint entries.

Drivers are called only between two states that are on disk. Wherever the agent is killed, its successor knows which
calls may have happened: for a claim that is PREPARING or UNPREPARING it is unknown whether the driver has finished.
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
    ANSWERED = "answered"  # all drivers have prepared their parts
    LEFT = "left"  # by the last pod
    UNPREPARED = "unprepared"  # by all drivers


# The transitions that the functions below make, as a table for readers and for tests.
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
    """Return the claim's entry after another pod wants to use the claim.

    `drivers` says for each driver whether its unprepare is skipped. A claim that is being unprepared is prepared
    again by all its drivers, since part of the claim may already be unprepared.
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
    """Return the claim's entry with the devices that these drivers have prepared.

    `devices` are by driver name; the shares of other drivers stay as they are.
    """
    shares = tuple(replace(s, devices=devices[s.driver]) if s.driver in devices else s for s in claim.shares)
    return replace(claim, shares=shares)


def left(claim: PreparedClaim, pod: str) -> PreparedClaim:
    """Return the claim's entry after a pod stopped using the claim.

    If other pods use the claim, only the pod is removed. The last pod stays listed, and the claim is marked as
    leaving.
    """
    if len(claim.pods) > 1:
        return replace(claim, pods={uid: entries for uid, entries in claim.pods.items() if uid != pod})
    return replace(claim, shares=tuple(replace(share, devices=None) for share in claim.shares), leaving=True)


def unprepared(claim: PreparedClaim, drivers: Iterable[str]) -> PreparedClaim | None:
    """Return the claim's entry after these drivers have unprepared it, or None if no driver is left that must.

    `drivers` are names. Shares that need no unprepare call are removed too.
    """
    shares = tuple(share for share in claim.shares if share.driver not in set(drivers) and not share.stays)
    return replace(claim, shares=shares) if shares else None
