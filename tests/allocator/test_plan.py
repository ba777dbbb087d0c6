"""Claims that cannot be understood are errors that name the claim and the request, never a guess."""

from typing import Any

import pytest

from dray.allocator import Failed, Features, Unallocatable, allocate
from dray.api.reasons.devices import InputCode, InputProblem
from dray.api.reasons.wording import input_problem
from tests.allocator.building import ANY, alternatives, claim, class_, device, index_below, node, request, slice_, spec


def error(*requests: dict[str, Any], features: Features = Features(), **devices: Any) -> str:  # noqa: B008 (frozen)
    classes = [ANY, class_("broken", "device.driver ==")]
    slices = [slice_("s", [device("d0"), device("d1", index=1)])]
    outcome = allocate(node(), [claim("a", *requests, **devices)], classes, slices, (), features)
    assert isinstance(outcome, Failed), outcome
    return input_problem(outcome.problem)


@pytest.mark.wording
def test_an_unknown_allocation_mode() -> None:
    odd = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "Some"}}
    assert error(odd) == "claim ns/a, request r: unsupported count mode Some"


@pytest.mark.wording
def test_a_request_of_an_unknown_kind() -> None:
    assert error({"name": "r"}).startswith("claim ns/a, request r: has neither exactly nor firstAvailable")


@pytest.mark.wording
def test_alternatives_with_their_feature_off() -> None:
    off = Features(prioritized_list=False)
    expected = "claim ns/a, request r: has subrequests, but the DRAPrioritizedList feature is disabled"
    assert error(alternatives("r", s=spec()), features=off) == expected


@pytest.mark.wording
def test_admin_access_with_its_feature_off() -> None:
    off = Features(admin_access=False)
    expected = "claim ns/a, request r: admin access is requested, but the feature is disabled"
    assert error(request("r", adminAccess=True), features=off) == expected


@pytest.mark.wording
def test_a_missing_class_name_or_class() -> None:
    assert error(request("r", cls="")).startswith("claim ns/a, request r: missing device class name")
    expected = 'request s: could not retrieve device class nope: device class "nope" not found'
    assert error(alternatives("r", s=spec(cls="nope"))) == f"claim ns/a, {expected}"


@pytest.mark.wording
def test_selectors_and_constraints_of_an_unknown_kind() -> None:
    odd = {"name": "r", "exactly": {**spec(), "selectors": [{}]}}
    assert error(odd).startswith("claim ns/a, request r, selector #0: CEL expression empty")
    assert error(request("r"), constraints=[{}]).startswith("claim ns/a, constraint #0: empty constraint")


@pytest.mark.wording
def test_capacity_requests_are_refused_with_their_feature_off() -> None:
    capacity = {"requests": {"memory": "1Gi"}}
    off = Features(consumable_capacity=False)
    text = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    assert error(request("r", capacity=capacity), features=off) == f"claim ns/a, request r: {text}"
    assert error(alternatives("r", s=spec(capacity=capacity)), features=off) == f"claim ns/a, subrequest s: {text}"


@pytest.mark.wording
def test_more_devices_than_a_claim_may_list() -> None:
    expected = "claim ns/a: number of requested devices 33 exceeds the claim limit of 32"
    assert error(request("r", 20), request("s", 13)) == expected


@pytest.mark.wording
def test_a_selector_that_fails_is_told_with_its_device() -> None:
    hint = "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has()"
    text = error(request("r", 1, "true", index_below(1)))
    where = "claim ns/a: selector #1 on device gpu.example.com/p/d0: CEL runtime error: no such key: index."
    assert text == f"{where} {hint} for optional fields"
    assert "selector #0 on device" in error(request("r", None, index_below(1)))


@pytest.mark.wording
def test_a_class_with_a_broken_selector_is_named() -> None:
    assert error(request("r", cls="broken")).startswith("class broken: selector #0: CEL compile error: ")


@pytest.mark.wording
def test_errors_come_in_the_order_of_the_claims() -> None:
    assert "request r" in error(request("r", cls="nope"), request("s", cls=""))
    slices = [slice_("s", [device("d0")])]
    first = claim("a", request("r", 40))
    second = claim("b", request("r", cls="nope"))
    outcome = allocate(node(), [first, second], [ANY], slices)
    assert outcome == Failed(InputProblem(InputCode.TOO_MANY_DEVICES, "ns/a", number=40, limit=32))


def test_a_wrong_count_is_not_an_error_but_cannot_be_served() -> None:
    outcome = allocate(node(), [claim("a", request("r", 2))], [ANY], [slice_("s", [device("d0")])])
    assert isinstance(outcome, Unallocatable)
