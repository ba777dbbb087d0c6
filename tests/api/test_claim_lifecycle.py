"""The life of a claim: every state can be reached and left, and claims are told their state by what they say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.claim_lifecycle import HOLDING, TRANSITIONS, ClaimEvent, ClaimState, after, allows, has_devices, state_of
from dray.api.types.resource import ResourceClaim
from tests import objects

POD = {"resource": "pods", "name": "p", "uid": "1"}


def claim_that_is(*, allocated: bool = False, reserved: bool = False, deleting: bool = False) -> ResourceClaim:
    status: dict[str, Any] = {"reservedFor": [POD] if reserved else []}
    if allocated:
        status["allocation"] = {}
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z" if deleting else None}
    return msgspec.convert(objects.claim(metadata=metadata, status=status), ResourceClaim)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (None, ClaimState.GONE),
        (claim_that_is(), ClaimState.PENDING),
        (claim_that_is(allocated=True), ClaimState.ALLOCATED),
        (claim_that_is(allocated=True, reserved=True), ClaimState.RESERVED),
        (claim_that_is(deleting=True), ClaimState.DELETING),
        (claim_that_is(allocated=True, deleting=True), ClaimState.DELETING_ALLOCATED),
        (claim_that_is(allocated=True, reserved=True, deleting=True), ClaimState.DELETING_RESERVED),
    ],
)
def test_a_claim_says_what_it_is(found: ResourceClaim | None, state: ClaimState) -> None:
    assert state_of(found) is state
    assert has_devices(found) is (state in HOLDING)


def test_every_life_begins_pending_can_reach_every_state_and_can_end() -> None:
    reached, left = {ClaimState.PENDING}, [ClaimState.PENDING]
    while left:
        found = {*TRANSITIONS[left.pop()].values()} - reached
        reached |= found
        left += found
    assert reached == {*ClaimState}
    for state in ClaimState:
        assert _ends(state), state


def _ends(state: ClaimState) -> bool:
    seen, left = {state}, [state]
    while left:
        found = {*TRANSITIONS[left.pop()].values()} - seen
        seen |= found
        left += found
    return ClaimState.GONE in seen


def test_devices_are_given_once_and_taken_back_only_from_claims_that_have_them() -> None:
    for state, events in TRANSITIONS.items():
        for event, becomes in events.items():
            if becomes in HOLDING and state not in HOLDING:
                assert event is ClaimEvent.ALLOCATE
            if event is ClaimEvent.ALLOCATE:
                assert state is ClaimState.PENDING


def test_a_claim_that_is_being_deleted_takes_nobody_in() -> None:
    for found in (claim_that_is(deleting=True), claim_that_is(allocated=True, reserved=True, deleting=True)):
        assert not allows(found, ClaimEvent.ALLOCATE)
        assert not allows(found, ClaimEvent.RESERVE)
    assert allows(claim_that_is(), ClaimEvent.ALLOCATE)
    assert allows(claim_that_is(allocated=True), ClaimEvent.RESERVE)


def test_nothing_happens_to_a_claim_by_an_event_of_another_state() -> None:
    assert after(ClaimState.PENDING, ClaimEvent.RELEASE_LAST) is ClaimState.PENDING
    assert after(ClaimState.RESERVED, None) is ClaimState.RESERVED
    assert after(ClaimState.RESERVED, ClaimEvent.RELEASE_SHARED) is ClaimState.ALLOCATED
