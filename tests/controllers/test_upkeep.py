"""What a claim needs, decided without a server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.podclaims import CLAIM_FINALIZER
from dray.api.types.resource import AllocationResult, ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from dray.controllers.upkeep import ConsumerFacts, Upkeep, upkeep
from tests import objects

ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}
CLEARED = ResourceClaimStatus()


def claim_of(*consumers: str, allocated: bool = True, deleting: bool = False, finalizers: tuple[str, ...] = ()) -> Any:
    """A claim that consumers have reserved, by their uids."""
    status: dict[str, Any] = {"reservedFor": [reference(uid) for uid in consumers]}
    if allocated:
        status["allocation"] = ALLOCATION
    metadata: dict[str, Any] = {"finalizers": list(finalizers)}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert(objects.claim(namespace="ns", metadata=metadata, status=status), ResourceClaim)


def reference(uid: str) -> dict[str, str]:
    return {"resource": "pods", "name": uid, "uid": uid}


def test_a_claim_in_use_needs_nothing() -> None:
    assert upkeep(claim_of("a", finalizers=(CLAIM_FINALIZER,)), ConsumerFacts()) == Upkeep()


def test_the_reservation_of_a_consumer_that_is_gone_is_removed() -> None:
    assert upkeep(claim_of("a", "b"), ConsumerFacts(gone={"a"})).status == claim_of("b").status


def test_the_last_reservation_takes_allocation_and_finalizer_along() -> None:
    done = upkeep(claim_of("a", finalizers=("other", CLAIM_FINALIZER)), ConsumerFacts(gone={"a"}))
    assert done == Upkeep(CLEARED, ["other"])


def test_an_allocation_without_reservations_stays_for_the_next_pod() -> None:
    assert upkeep(claim_of(finalizers=(CLAIM_FINALIZER,)), ConsumerFacts()) == Upkeep()


def test_a_claim_that_its_workload_gave_back_is_deallocated() -> None:
    assert upkeep(claim_of(), ConsumerFacts(abandoned=True)).status == CLEARED


@pytest.mark.parametrize("deleting", [True, False])
def test_a_claim_whose_pods_are_not_listed_loses_its_last_reservation_before_its_devices(deleting: bool) -> None:
    done = upkeep(
        claim_of("a", deleting=deleting, finalizers=(CLAIM_FINALIZER,)), ConsumerFacts(gone={"a"}, shared=True)
    )
    assert done == Upkeep(claim_of().status)
    done = upkeep(
        claim_of(deleting=deleting, finalizers=(CLAIM_FINALIZER,)), ConsumerFacts(shared=True, abandoned=True)
    )
    assert done == Upkeep(CLEARED, [])


@pytest.mark.parametrize(
    "facts", [ConsumerFacts(abandoned=True, occupied=True), ConsumerFacts(gone={"a"}, occupied=True)]
)
def test_devices_are_not_freed_under_a_pod_that_uses_them(facts: ConsumerFacts) -> None:
    consumers = ("a",) if facts.gone else ()
    status = upkeep(claim_of(*consumers, deleting=True), facts).status
    assert status is None or status.allocation is not None


def test_a_deleted_claim_without_consumers_is_deallocated() -> None:
    done = upkeep(claim_of(deleting=True, finalizers=(CLAIM_FINALIZER,)), ConsumerFacts())
    assert done == Upkeep(CLEARED, [])


def test_a_deleted_claim_with_consumers_waits() -> None:
    assert upkeep(claim_of("a", deleting=True, finalizers=(CLAIM_FINALIZER,)), ConsumerFacts()) == Upkeep()


def test_a_deleted_claim_that_was_never_allocated_loses_its_finalizer() -> None:
    assert upkeep(claim_of(allocated=False, deleting=True, finalizers=(CLAIM_FINALIZER,)), ConsumerFacts()) == Upkeep(
        None, []
    )


def test_a_pending_claim_keeps_the_finalizer_that_a_scheduler_just_set() -> None:
    assert upkeep(claim_of(allocated=False, finalizers=(CLAIM_FINALIZER,)), ConsumerFacts()) == Upkeep()


def test_a_claim_is_deleted_with_its_pod_once_nobody_else_uses_it() -> None:
    assert upkeep(claim_of("a"), ConsumerFacts(gone={"a"}, owner_done=True)).delete
    assert not upkeep(claim_of("a", "b"), ConsumerFacts(gone={"a"}, owner_done=True)).delete


def test_a_missing_reservation_is_added_and_the_allocation_stays_as_it_is() -> None:
    missing = msgspec.convert(reference("w"), ResourceClaimConsumerReference)
    done = upkeep(claim_of("a"), ConsumerFacts(missing=(missing,)))
    assert done.status is not None
    assert done.status.reservedFor == claim_of("a", "w").status.reservedFor
    assert done.status.allocation == msgspec.convert(ALLOCATION, AllocationResult)
