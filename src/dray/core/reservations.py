"""The status that a placement writes into a claim: allocation and reservation. Left out: writing (`dray.scheduler`)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from dray.api import podclaims
from dray.api.claim_access import ClaimUse
from dray.api.podclaims import Sharing
from dray.api.types.resource import AllocationResult, ResourceClaim, ResourceClaimStatus
from dray.core.attempt import Promise


def reservation(
    promise: Promise, use: ClaimUse, claim: ResourceClaim, sharing: Sharing
) -> tuple[ResourceClaimStatus, bool]:
    """Compute the claim status to write for a promise: the allocation if the claim has none, and the reservation.

    Returns the status and whether a reservation for the pod itself was added, which is False for one of its group or
    if none is needed.
    """
    pod, group = promise.claims.pod, promise.claims.through(use)
    allocation = _allocation(promise, claim, sharing) if claim.status.allocation is None else None
    if allocation is not None:
        claim = replace(claim, status=replace(claim.status, allocation=allocation))
    consumer = podclaims.consumer_to_add(claim, pod, group, sharing)
    added = () if consumer is None else (consumer,)
    own = consumer is not None and consumer.uid == pod.metadata.uid
    return replace(claim.status, reservedFor=(*claim.status.reservedFor, *added)), own


def _allocation(promise: Promise, claim: ResourceClaim, sharing: Sharing) -> AllocationResult | None:
    """Return the allocation promised to the claim, or None without one.

    Claims of workloads get an allocation that is reserved for any pod.
    """
    promised = promise.allocation_of(claim)
    if promised is None:
        return None
    allocation = msgspec.convert(promised, AllocationResult)
    return replace(allocation, reservedForAnyPod=True) if claim.spec.reservedFor and sharing.workloads else allocation
