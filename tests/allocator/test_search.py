"""The answer is the first that a plain depth-first search in the reference's order finds, errors included."""

from __future__ import annotations

import time
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench._plain_search import Answer, TooSlow, plain_search
from dray.allocator import Allocated, AllocationOutcome, Failed, Features, GaveUp, Unallocatable, allocate, verify
from dray.api.allocations import DeviceId
from dray.api.reasons.wording import input_problem
from dray.api.types.resource import ResourceSlice
from tests.allocator.building import (
    ANY,
    ROOT,
    Instance,
    alternatives,
    claim,
    device,
    index_below,
    node,
    random_instance,
    request,
    slice_,
    spec,
)

instances = st.randoms(use_true_random=False).map(random_instance)


def as_answer(outcome: AllocationOutcome) -> Answer:
    match outcome:
        case Allocated(results=results):
            return Answer(
                tuple(
                    tuple(
                        (found["request"], DeviceId(found["driver"], found["pool"], found["device"]))
                        for found in result["devices"].get("results", ())
                    )
                    for result in results
                )
            )
        case Failed(problem=problem):
            return Answer(error=input_problem(problem))
        case Unallocatable():
            return Answer()
    raise AssertionError(outcome)


def first_answer(instance: Instance) -> Answer | None:
    try:
        return plain_search(*instance, deadline=time.monotonic() + 0.5)
    except TooSlow:
        return None


@pytest.mark.wording
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(instances)
def test_the_first_answer_of_a_plain_search_is_found(instance: Instance) -> None:
    expected = first_answer(instance)
    if expected is not None:
        assert as_answer(allocate(*instance)) == expected


@pytest.mark.wording
@pytest.mark.parametrize("start", range(0, 1200, 300))
def test_seeded_instances_agree_with_a_plain_search(start: int) -> None:
    for seed in range(start, start + 300):
        instance = random_instance(Random(seed))
        expected = first_answer(instance)
        if expected is not None:
            assert as_answer(allocate(*instance)) == expected, seed


@pytest.mark.wording
@pytest.mark.parametrize("limit", [2, 3, 5])
def test_a_limit_on_results_cuts_the_search_where_the_reference_does(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("search", "foresight", "problem"):
        monkeypatch.setattr(f"dray.allocator.{module}.RESULTS_LIMIT", limit)
    monkeypatch.setattr("bench._plain_search.LIMIT", limit)
    for seed in range(200):
        instance = random_instance(Random(seed))
        expected = first_answer(instance)
        if expected is not None:
            assert as_answer(allocate(*instance)) == expected, seed


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(instances)
def test_every_allocation_is_sound(instance: Instance) -> None:
    outcome = allocate(*instance)
    if isinstance(outcome, Allocated):
        assert verify(outcome.results, *instance) == []


def serve(
    devices: list[dict[str, object]], *claims: object, taken: tuple[tuple[str, str, str], ...] = ()
) -> AllocationOutcome:
    return allocate(node(), list(claims), [ANY], [slice_("s", devices)], taken)  # type: ignore[arg-type] # brevity


def names(outcome: AllocationOutcome) -> list[list[str]]:
    assert isinstance(outcome, Allocated), outcome
    return [[found["device"] for found in result["devices"]["results"]] for result in outcome.results]


def test_low_devices_are_preferred_unless_others_need_them() -> None:
    devices = [device(f"d{at}", index=at) for at in range(3)]
    picky = claim("b", request("r", 1, index_below(1)))
    assert names(serve(devices, claim("a", request("r")))) == [["d0"]]
    assert names(serve(devices, claim("a", request("r")), picky)) == [["d1"], ["d0"]]


def test_an_alternative_is_passed_over_when_it_leaves_too_little_for_others() -> None:
    devices = [device(f"d{at}") for at in range(3)]
    wish = claim("a", alternatives("r", two=spec(2), one=spec(1)))
    assert names(serve(devices, wish, claim("b", request("r", 1)))) == [["d0", "d1"], ["d2"]]
    assert names(serve(devices, wish, claim("b", request("r", 2)))) == [["d0"], ["d1", "d2"]]


def test_a_constraint_moves_the_choice_to_a_value_with_room() -> None:
    devices = [device(f"d{at}", **{ROOT: root}) for at, root in enumerate("pqqrr")]
    assert names(serve(devices, claim("a", request("r", 2), match=(ROOT,)))) == [["d1", "d2"]]


def test_admin_access_reaches_devices_in_use_but_not_twice_in_a_claim() -> None:
    devices = [device("d0"), device("d1")]
    taken = (("gpu.example.com", "p", "d0"),)
    privileged = request("r", 2, adminAccess=True)
    assert names(serve(devices, claim("a", privileged), taken=taken)) == [["d0", "d1"]]
    both = claim("a", request("x", 1, adminAccess=True), request("y", 1, adminAccess=True))
    assert names(serve(devices, both)) == [["d0", "d1"]]


@pytest.mark.wording
def test_an_error_counts_only_when_its_device_is_visited() -> None:
    broken = [device("d0", index=0), device("d1")]
    picky = claim("a", request("r", 1, index_below(1)))
    assert names(serve(broken, picky)) == [["d0"]]
    outcome = serve(broken, picky, taken=(("gpu.example.com", "p", "d0"),))
    assert isinstance(outcome, Failed)
    assert "on device gpu.example.com/p/d1: CEL runtime error: no such key: index" in input_problem(outcome.problem)


def test_steps_that_are_not_enough_are_an_outcome_that_says_how_far_it_got() -> None:
    devices = [device(f"d{at}", **{ROOT: "p"}) for at in range(4)]
    hard = claim("a", request("r", 2), request("s", 2), match=(ROOT,))
    outcome = allocate(node(), [hard], [ANY], [slice_("s", devices)], (), Features(), 10)
    assert isinstance(outcome, GaveUp)
    assert (outcome.progress.claim, outcome.progress.request) == ("ns/a", "r")
    assert (outcome.progress.number, outcome.progress.requests) == (1, 2)


def test_results_beyond_the_limit_are_left_to_smaller_alternatives() -> None:
    devices = [device(f"d{at}") for at in range(40)]
    large = claim("a", request("r", 30), alternatives("s", big=spec(5), small=spec(2)))
    outcome = serve(devices, large)
    assert isinstance(outcome, Allocated)
    assert outcome.alternatives == ((None, 1),)
    assert outcome.score == 7


def test_many_claims_do_not_exhaust_the_stack() -> None:
    devices = [device(f"d{at}", **{ROOT: "p"}) for at in range(100)]
    many = [claim(f"c{at}", request("r", 1), match=(ROOT,)) for at in range(100)]
    assert len(names(serve(devices, *many))) == 100


def random_lists(random: Random) -> Instance:
    """An instance in which some attributes are lists."""
    instance = random_instance(random)
    slices = []
    for part in instance.slices:
        tree = msgspec.to_builtins(part)
        for offered in tree["spec"].get("devices") or ():
            held = offered.get("attributes", {}).get(ROOT)
            if held and random.randint(1, 100) <= 60:
                offered["attributes"][ROOT] = {"strings": random.sample("pqrs", random.choice([1, 2, 3]))}
        slices.append(msgspec.convert(tree, ResourceSlice))
    features = msgspec.structs.replace(instance.features, list_type_attributes=random.randint(1, 100) <= 85)
    return instance._replace(slices=slices, features=features)


@pytest.mark.wording
@pytest.mark.parametrize("start", range(0, 900, 300))
def test_lists_agree_and_differ_as_a_plain_search_says(start: int) -> None:
    for seed in range(start, start + 300):
        instance = random_lists(Random(seed))
        expected = first_answer(instance)
        if expected is not None:
            outcome = allocate(*instance)
            assert as_answer(outcome) == expected, seed
            if isinstance(outcome, Allocated):
                assert verify(outcome.results, *instance) == [], seed
            elif isinstance(outcome, Unallocatable):
                assert outcome.explain().node == "n", seed
