"""The life of a claim on a node, as a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.node import preparation
from dray.node.checkpoint import CheckpointedDevice, PreparedClaim
from dray.node.drivers import ClaimId
from dray.node.preparation import TRANSITIONS, PreparationEvent, PreparationState, state_of

CLAIM = ClaimId("ns", "c", "u")
DRIVERS = {"d": False, "e": False}
DEVICES = (CheckpointedDevice((), "p", "0"),)


def after(event: PreparationEvent, claim: PreparedClaim | None, pod: str) -> PreparedClaim | None:
    if event is PreparationEvent.WANTED:
        return preparation.wanted(claim, CLAIM, DRIVERS, pod, ("entry",))
    assert claim is not None
    if event is PreparationEvent.ANSWERED:
        return preparation.answered(claim, dict.fromkeys((share.driver for share in claim.shares), DEVICES))
    if event is PreparationEvent.LEFT:
        return preparation.left(claim, next(iter(claim.pods)))
    return preparation.unprepared(claim, [share.driver for share in claim.shares])


@given(st.lists(st.sampled_from([*PreparationEvent]), max_size=20))
def test_every_walk_follows_the_table(events: list[PreparationEvent]) -> None:
    claim: PreparedClaim | None = None
    for number, event in enumerate(events):
        before = state_of(claim)
        if (before, event) not in TRANSITIONS:
            continue
        alone = claim is not None and len(claim.pods) == 1
        claim = after(event, claim, f"pod-{number}")
        stays = event is PreparationEvent.LEFT and not alone
        assert state_of(claim) is (before if stays else TRANSITIONS[before, event])


def test_of_several_pods_only_the_last_makes_a_claim_leave() -> None:
    claim = preparation.wanted(None, CLAIM, DRIVERS, "a", ("x",))
    claim = preparation.wanted(claim, CLAIM, DRIVERS, "b", ("y",))
    claim = preparation.answered(claim, dict.fromkeys(DRIVERS, DEVICES))
    claim = preparation.left(claim, "a")
    assert (claim.pods, state_of(claim)) == ({"b": ("y",)}, PreparationState.PREPARED)
    claim = preparation.left(claim, "b")
    assert (claim.pods, state_of(claim)) == ({"b": ("y",)}, PreparationState.UNPREPARING)


def test_a_driver_that_has_unprepared_is_not_asked_again() -> None:
    claim = preparation.left(preparation.wanted(None, CLAIM, DRIVERS, "a", ()), "a")
    rest = preparation.unprepared(claim, ["d"])
    assert rest is not None
    assert [share.driver for share in rest.shares] == ["e"]
    assert preparation.unprepared(rest, ["e"]) is None


def test_a_claim_that_is_wanted_on_its_way_out_is_prepared_anew_by_all() -> None:
    claim = preparation.wanted(None, CLAIM, DRIVERS, "a", ())
    claim = preparation.left(preparation.answered(claim, dict.fromkeys(DRIVERS, DEVICES)), "a")
    rest = preparation.unprepared(claim, ["d"])
    claim = preparation.wanted(rest, CLAIM, DRIVERS, "b", ())
    assert [(share.driver, share.devices) for share in claim.shares] == [("d", None), ("e", None)]
    assert [*claim.pods] == ["a", "b"]


@pytest.mark.parametrize("state", [*PreparationState])
def test_every_state_can_be_left(state: PreparationState) -> None:
    assert any(before is state for before, _ in TRANSITIONS)
