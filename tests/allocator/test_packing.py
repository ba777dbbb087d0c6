"""Partitions and shares: answers are those of a plain search, nothing is overcommitted, freeing gives exactly back."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench._plain_search import Answer, TooSlow, plain_search
from dray.allocator import (
    Allocated,
    AllocationOutcome,
    Failed,
    Features,
    Index,
    Unallocatable,
    allocate,
    steps_in,
    verify,
)
from dray.api.allocations import Share
from dray.api.reasons.devices import InputCode, LackingAmount, PoolState, StepCode
from dray.api.types.resource import ResourceSlice
from tests.allocator.building import (
    ANY,
    DRIVER,
    ROOT,
    Consuming,
    alternatives,
    claim,
    counters,
    device,
    drawing,
    index_below,
    node,
    random_consuming,
    request,
    shareable,
    slice_,
    spec,
)
from tests.allocator.test_search import as_answer, names

consuming = st.randoms(use_true_random=False).map(random_consuming)
quietly = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


def ask(case: Consuming) -> AllocationOutcome:
    return allocate(*case.instance, shares=case.shares)


def first_answer(case: Consuming) -> Answer | None:
    try:
        return plain_search(*case.instance, deadline=time.monotonic() + 0.5, shares=case.shares)
    except TooSlow:
        return None


def anonymous(outcome: AllocationOutcome) -> Any:
    """An outcome without the identities of shares."""
    if isinstance(outcome, Unallocatable):
        return outcome.explain()
    if not isinstance(outcome, Allocated):
        return outcome
    results = [
        {**result, "devices": {**result["devices"], "results": [without_share(r) for r in _entries(result)]}}
        for result in outcome.results
    ]
    return results, outcome.alternatives


def _entries(result: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result["devices"].get("results", [])
    return found


def without_share(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: "SHARE" if key == "shareID" else value for key, value in entry.items()}


@pytest.mark.wording
@quietly
@given(consuming)
def test_the_first_answer_of_a_plain_search_is_found(case: Consuming) -> None:
    expected = first_answer(case)
    if expected is not None:
        assert as_answer(ask(case)) == expected


@pytest.mark.wording
@pytest.mark.parametrize("start", range(0, 1500, 500))
def test_seeded_instances_agree_with_a_plain_search(start: int) -> None:
    for seed in range(start, start + 500):
        case = random_consuming(Random(seed))
        expected = first_answer(case)
        if expected is not None:
            assert as_answer(ask(case)) == expected, seed


@quietly
@given(consuming)
def test_every_allocation_is_sound(case: Consuming) -> None:
    outcome = ask(case)
    if isinstance(outcome, Allocated):
        assert verify(outcome.results, *case.instance, shares=case.shares) == []


def filled(case: Consuming, order: Random) -> Index:
    instance = case.instance
    index = Index(instance.features)
    steps = [
        *(lambda each=each: index.upsert_class(each) for each in instance.classes),
        *(lambda each=each: index.upsert_slice(each) for each in instance.slices),
        lambda: index.upsert_node(instance.node),
        lambda: index.take(instance.taken),
        lambda: index.take((), case.shares),
    ]
    order.shuffle(steps)
    for step in steps:
        step()
    return index


@quietly
@given(consuming, st.randoms(use_true_random=False))
def test_an_index_gives_the_same_answers_in_whatever_order_it_is_fed(case: Consuming, order: Random) -> None:
    index = filled(case, order)
    outcome = ask(case)
    assert anonymous(index.allocate("n", case.instance.claims)) == anonymous(outcome)
    assert ("n" in index.fits(case.instance.claims)) == isinstance(outcome, Allocated)


@quietly
@given(consuming, st.randoms(use_true_random=False))
def test_taking_and_freeing_gives_exactly_back(case: Consuming, order: Random) -> None:
    index = filled(case, order)
    claims = case.instance.claims
    before = index.allocate("n", claims)
    if not isinstance(before, Allocated):
        return
    for taken in before.taken:
        index.take(taken.devices, taken.shares)
    held = Consuming(
        case.instance._replace(taken=[*case.instance.taken, *(d for t in before.taken for d in t.devices)]),
        [*case.shares, *(share for t in before.taken for share in t.shares)],
    )
    assert anonymous(index.allocate("n", claims)) == anonymous(ask(held))
    assert ("n" in index.fits(claims)) == isinstance(ask(held), Allocated)
    for taken in before.taken:
        index.release(taken.devices, taken.shares)
    assert anonymous(index.allocate("n", claims)) == anonymous(before)
    assert "n" in index.fits(claims)


def grouped(random: Random) -> Consuming:
    """A case in which partitions of a GPU only go together when they have a group in common."""
    case = random_consuming(random)
    slices = []
    for part in case.instance.slices:
        tree = msgspec.to_builtins(part)
        for offered in tree["spec"].get("devices") or ():
            for drawn in offered.get("consumesCounters") or ():
                drawn["compatibilityGroups"] = random.choice([[], ["a"], ["a", "b"], ["b"]])
        slices.append(msgspec.convert(tree, ResourceSlice))
    features = msgspec.structs.replace(case.instance.features, compatibility_groups=True)
    return Consuming(case.instance._replace(slices=slices, features=features, taken=[]), [])


@pytest.mark.wording
@pytest.mark.parametrize("start", range(0, 900, 300))
def test_groups_are_kept_apart_as_in_a_plain_search(start: int) -> None:
    for seed in range(start, start + 300):
        case = grouped(Random(seed))
        expected = first_answer(case)
        if expected is not None:
            assert as_answer(ask(case)) == expected, seed
            index = filled(case, Random(seed))
            assert anonymous(index.allocate("n", case.instance.claims)) == anonymous(ask(case)), seed


# One thing at a time.

GPU0 = counters("a", gpu0={"memory": 4, "engines": 3})


def partitions(*amounts: int, **more: Any) -> Any:
    devices = [device(f"d{at}") | drawing("gpu0", memory=much, engines=1) | more for at, much in enumerate(amounts)]
    return slice_("b", devices, count=2)


def test_partitions_share_counters() -> None:
    slices = [GPU0, partitions(3, 2, 2)]
    assert names(allocate(node(), [claim("a", request("r", 2))], [ANY], slices)) == [["d1", "d2"]]
    assert isinstance(allocate(node(), [claim("a", request("r", 3))], [ANY], slices), Unallocatable)


def test_counters_that_ran_out_are_the_reason() -> None:
    outcome = allocate(node(), [claim("a", request("r"))], [ANY], [GPU0, partitions(4, 2)], [(DRIVER, "p", "d0")])
    assert isinstance(outcome, Unallocatable)
    lost = outcome.explain().requests[0].alternatives[0].lost_at
    assert (lost.code, lost.devices) == (StepCode.COUNTERS, 0)
    assert lost.lacking == (LackingAmount(f"{DRIVER}/p/d1", "memory", "2", "0", "gpu0"),)


def test_a_partition_in_use_on_another_node_draws_on_the_counters() -> None:
    slices = [
        counters("a", count=3, gpu0={"memory": 4}),
        slice_("b", [device("d0") | drawing("gpu0", memory=2)], count=3),
        slice_("c", [device("far") | drawing("gpu0", memory=3)], count=3, nodeName="other"),
    ]
    one = [claim("a", request("r"))]
    assert names(allocate(node(), one, [ANY], slices)) == [["d0"]]
    assert isinstance(allocate(node(), one, [ANY], slices, [(DRIVER, "p", "far")]), Unallocatable)


def test_without_the_gate_partitions_are_passed_over_and_the_gate_is_named() -> None:
    off = Features(partitionable_devices=False)
    outcome = allocate(node(), [claim("a", request("r"))], [ANY], [GPU0, partitions(1)], (), off)
    assert isinstance(outcome, Unallocatable)
    lost = outcome.explain().requests[0].alternatives[0].lost_at
    assert (lost.code, lost.subject) == (StepCode.SUPPORTED, "DRAPartitionableDevices")


def test_devices_in_use_decide_which_groups_may_join_them() -> None:
    devices = [device(f"d{at}") | drawing("gpu0", memory=1) for at in range(4)]
    for offered, groups in zip(devices, ([], ["a"], ["a", "b"], ["b"]), strict=True):
        offered["consumesCounters"][0]["compatibilityGroups"] = groups
    slices = [GPU0, slice_("b", devices, count=2)]
    on, one = Features(compatibility_groups=True), [claim("a", request("r"))]
    for used, expected in (("d0", None), ("d1", "d2"), ("d2", "d1"), ("d3", "d2")):
        outcome = allocate(node(), one, [ANY], slices, [(DRIVER, "p", used)], on)
        if expected is None:
            assert isinstance(outcome, Unallocatable)
        else:
            assert names(outcome) == [[expected]]
    outcome = allocate(node(), one, [ANY], slices)
    assert isinstance(outcome, Unallocatable)
    [pool] = outcome.explain().pools
    assert (pool.state, pool.gate) == (PoolState.INCOMPLETE, "DRADeviceCompatibilityGroups")
    outcome = allocate(node(), one, [ANY], [GPU0, slice_("b", devices[:2], count=2)], [(DRIVER, "p", "d0")], on)
    assert isinstance(outcome, Unallocatable)
    lost = outcome.explain().requests[0].alternatives[0].lost_at
    assert (lost.code, lost.devices) == (StepCode.COMPATIBLE, 0)


def shares_of(much: int, *held: str) -> list[Share]:
    return [Share.of((DRIVER, "p", name), f"{name}-{at}", {"units": str(much)}) for at, name in enumerate(held)]


def test_claims_share_a_device_up_to_its_capacity() -> None:
    slices = [slice_("s", [device("d0") | shareable(units=5), device("d1") | shareable(units=5)])]
    asked = [claim(f"c{at}", request("r", capacity={"requests": {"units": "2"}})) for at in range(4)]
    outcome = allocate(node(), asked, [ANY], slices)
    assert names(outcome) == [["d0"], ["d0"], ["d1"], ["d1"]]
    assert isinstance(outcome, Allocated)
    assert len({share.share for taken in outcome.taken for share in taken.shares}) == 4
    assert outcome.results[0]["devices"]["results"][0]["consumedCapacity"] == {"units": "2"}
    assert isinstance(allocate(node(), [*asked, asked[0]], [ANY], slices), Unallocatable)


def test_capacity_that_ran_out_is_the_reason() -> None:
    slices = [slice_("s", [device("d0") | shareable(units=5)])]
    asked = claim("a", request("r", capacity={"requests": {"units": "2"}}))
    outcome = allocate(node(), [asked], [ANY], slices, shares=shares_of(2, "d0", "d0"))
    assert isinstance(outcome, Unallocatable)
    lost = outcome.explain().requests[0].alternatives[0].lost_at
    assert (lost.code, lost.devices) == (StepCode.CAPACITY, 0)
    assert lost.lacking == (LackingAmount(f"{DRIVER}/p/d0", "units", "2", "1"),)


def test_one_claim_gets_different_devices_where_it_asks_for_distinct_ones() -> None:
    slices = [slice_("s", [device(f"d{at}", **{ROOT: root}) | shareable(units=9) for at, root in enumerate("aab")])]
    two = [request(name, capacity={"requests": {"units": "1"}}) for name in ("x", "y")]
    assert names(allocate(node(), [claim("a", *two)], [ANY], slices)) == [["d0", "d0"]]
    distinct = claim("a", *two, constraints=[{"distinctAttribute": ROOT}])
    assert names(allocate(node(), [distinct], [ANY], slices)) == [["d0", "d2"]]


def test_counters_of_a_shared_device_are_drawn_once() -> None:
    both = device("d0") | drawing("gpu0", memory=3) | shareable(units=4)
    slices = [GPU0, slice_("b", [both, device("d1") | drawing("gpu0", memory=2)], count=2)]
    asked = [claim(f"c{at}", request("r", capacity={"requests": {"units": "2"}})) for at in range(2)]
    assert names(allocate(node(), asked, [ANY], slices)) == [["d0"], ["d0"]]
    one = claim("one", request("r", 1, "!device.allowMultipleAllocations"))
    assert isinstance(allocate(node(), [one], [ANY], slices, shares=shares_of(1, "d0")), Unallocatable)


def test_all_devices_need_room_on_each() -> None:
    slices = [slice_("s", [device("d0") | shareable(units=2), device("d1") | shareable(units=2), device("d2")])]
    every = claim("a", request("r", None, capacity={"requests": {"units": "2"}}))
    assert names(allocate(node(), [every], [ANY], slices)) == [["d0", "d1"]]
    assert isinstance(allocate(node(), [every], [ANY], slices, shares=shares_of(1, "d1")), Unallocatable)


def test_a_selector_fails_on_a_device_that_has_no_counters_left() -> None:
    devices = [device("d0") | drawing("gpu0", memory=4), device("d1", index=1) | drawing("gpu0", memory=4)]
    both = claim("a", request("r"), request("s", 1, index_below(5)))
    outcome = allocate(node(), [both], [ANY], [GPU0, slice_("b", devices, count=2)])
    assert isinstance(outcome, Failed)
    assert (outcome.problem.code, outcome.problem.device) == (InputCode.SELECTOR_MISSING_KEY, f"{DRIVER}/p/d0")


@pytest.mark.parametrize(
    "other",
    [shareable(units=1), shareable({"units": {"default": "1", "validValues": ["1"]}}, units=2), {}],
    ids=["too small", "forbidden by its policy", "without that capacity"],
)
def test_all_devices_are_those_that_could_serve_the_request(other: dict[str, Any]) -> None:
    slices = [slice_("s", [device("d0") | shareable(units=2), device("d1") | other])]
    every = claim("a", request("r", None, capacity={"requests": {"units": "2"}}))
    outcome = allocate(node(), [every], [ANY], slices)
    assert names(outcome) == [["d0"]]
    assert isinstance(outcome, Allocated)
    assert verify(outcome.results, node(), [every], [ANY], slices) == []
    assert isinstance(allocate(node(), [every], [ANY], slices, shares=shares_of(1, "d0")), Unallocatable)


STEPS = {"default": "1", "validRange": {"min": "1", "step": "1"}}


@pytest.mark.parametrize(
    ("policy", "asked", "code"),
    [
        ({}, "-1", InputCode.CAPACITY_NEGATIVE),
        ({"default": "1", "validValues": ["1"]}, "-1", None),
        (STEPS, "-1", None),
        (STEPS, "100E", InputCode.CAPACITY_BEYOND_RANGE),
        (STEPS, "1u", None),
        (STEPS, "1000001u", InputCode.CAPACITY_BEYOND_RANGE),
    ],
)
@pytest.mark.parametrize("count", [1, None])
def test_what_is_no_amount_of_a_capacity_is_an_error(
    policy: dict[str, Any], asked: str, code: InputCode | None, count: int | None
) -> None:
    slices = [slice_("s", [device("d0") | shareable({"units": policy} if policy else None, units=4)])]
    outcome = allocate(
        node(), [claim("a", request("r", count, capacity={"requests": {"units": asked}}))], [ANY], slices
    )
    if code is None:
        assert isinstance(outcome, Allocated)
        assert outcome.taken[0].shares[0].consumed == (("units", "1"),)
    else:
        assert isinstance(outcome, Failed)
        assert (outcome.problem.code, outcome.problem.device) == (code, f"{DRIVER}/p/d0")


def test_an_amount_that_is_none_matters_only_where_it_is_asked_for() -> None:
    slices = [slice_("s", [device("d0") | shareable({"units": STEPS}, units=4), device("d1") | shareable(units=4)])]
    less = [claim(f"c{at}", request("r", capacity={"requests": {"units": "-1"}})) for at in range(2)]
    assert names(allocate(node(), less, [ANY], slices, shares=shares_of(2, "d0"))) == [["d0"], ["d0"]]
    outcome = allocate(node(), less, [ANY], slices, shares=shares_of(3, "d0"))
    assert isinstance(outcome, Failed)
    assert (outcome.problem.claim, outcome.problem.subject) == ("ns/c1", "units")


def test_devices_that_bind_late_are_tried_last_and_bring_their_conditions() -> None:
    late = slice_("s", [device("d") | {"bindingConditions": ["ready"], "bindsToNode": True}], pool="a", allNodes=True)
    soon = slice_("t", [device("e")], pool="b", allNodes=True)
    outcome = allocate(node(), [claim("a", request("r", 2))], [ANY], [late, soon])
    assert names(outcome) == [["e", "d"]] or names(outcome) == [["d", "e"]]
    assert names(allocate(node(), [claim("a", request("r"))], [ANY], [late, soon])) == [["e"]]
    assert isinstance(outcome, Allocated)
    conditions = {entry["device"]: entry.get("bindingConditions") for entry in _entries(outcome.results[0])}
    assert conditions == {"d": ["ready"], "e": None}
    assert outcome.results[0]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n"]
    off = Features(binding_conditions=False)
    assert names(allocate(node(), [claim("a", request("r"))], [ANY], [late, soon], (), off)) == [["e"]]
    outcome = allocate(node(), [claim("a", request("r"))], [ANY], [late], (), off)
    assert isinstance(outcome, Unallocatable)
    lost = outcome.explain().requests[0].alternatives[0].lost_at
    assert (lost.code, lost.subject) == (StepCode.SUPPORTED, "DRADeviceBindingConditions")


def mig(gpus: int) -> list[Any]:
    """Partitions of some GPUs: seven small ones, three pairs, two halves, one whole; memory slices must not overlap."""
    sets = {f"gpu{at}": {**{f"slice{s}": 1 for s in range(8)}, "engines": 7} for at in range(gpus)}
    shapes = {"1g": (1, 1, range(7)), "2g": (2, 2, (0, 2, 4)), "3g": (4, 3, (0, 4)), "7g": (8, 7, (0,))}
    devices = [
        device(f"gpu{at}-{name}-{start}", profile=name, **{ROOT: str(at % 2)})
        | drawing(f"gpu{at}", engines=engines, **{f"slice{s}": 1 for s in range(start, start + size)})
        for at in range(gpus)
        for name, (size, engines, starts) in shapes.items()
        for start in starts
    ]
    return [counters("a", **sets), slice_("b", devices, count=2)]


def profile(name: str) -> str:
    return f'device.attributes["{DRIVER}"].profile == "{name}"'


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ([("1g", 7), ("3g", 2)], True),
        ([("1g", 8), ("3g", 2), ("2g", 3)], False),
        ([("3g", 4), ("7g", 1)], False),
        ([("2g", 3), ("3g", 3), ("1g", 5)], False),
        ([("1g", 4), ("2g", 2), ("3g", 2)], True),
        ([("1g", 3), ("2g", 4), ("3g", 2)], False),
        ([("1g", 12), ("3g", 1)], False),
    ],
)
def test_packing_partitions_takes_no_time(asked: list[tuple[str, int]], fits: bool) -> None:
    requests = [request(f"r{at}", count, profile(name)) for at, (name, count) in enumerate(asked)]
    start = time.process_time()
    outcome = allocate(node(), [claim("a", *requests)], [ANY], mig(2), (), Features(), steps_in(5))
    assert isinstance(outcome, Allocated if fits else Unallocatable)
    assert time.process_time() - start < 1


def test_devices_that_overlap_are_counted_by_the_places_they_leave() -> None:
    """Of seven partitions of each GPU that overlap, four can be had at once; whoever asks for more is told soon."""
    whole = {f"slice{at}": 1 for at in range(8)}
    places = [(0, 2), (3, 1), (4, 2), (2, 2), (0, 1), (4, 4), (2, 1)]
    devices = [
        device(f"gpu{at}-{start}-{size}")
        | drawing(f"gpu{at}", **{f"slice{one}": 1 for one in range(start, start + size)})
        for at in range(3)
        for start, size in places
    ]
    slices = [counters("a", **{f"gpu{at}": whole for at in range(3)}), slice_("b", devices, count=2)]
    ways = {"a": spec(3), "b": spec(2), "c": spec(2, "true")}
    start = time.process_time()
    for claims, fits in ((6, True), (7, False)):
        asked = [claim(f"c{at}", alternatives("r", **ways)) for at in range(claims)]
        outcome = allocate(node(), asked, [ANY], slices, (), Features(), steps_in(10))
        assert isinstance(outcome, Allocated if fits else Unallocatable)
    assert time.process_time() - start < 5


def test_an_error_behind_partitions_that_cannot_be_had_is_not_looked_for() -> None:
    """All whole GPUs must share a root, and do not; but the first of them is in use, so nobody ever gets to that."""
    small = [claim(f"c{at}", request("r", 3)) for at in range(3)]
    every = claim("all", request("r", None, profile("7g")), match=(ROOT,))
    start = time.process_time()
    outcome = allocate(node(), [*small, every], [ANY], mig(3), [(DRIVER, "p", "gpu0-1g-3")])
    assert isinstance(outcome, Unallocatable)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("sizes", "fits"),
    [
        ([8, 11, 8, 5, 11, 8, 4, 6, 9, 8, 9, 9, 8, 8, 8], False),
        ([5, 9, 7, 4, 6, 8, 5, 9, 9, 5, 5, 8], False),
        ([9, 7, 6, 9, 5, 8, 4, 5, 8, 5, 4, 10], True),
        ([7, 7, 7, 7, 7, 6], False),
    ],
)
def test_packing_shares_takes_no_time(sizes: list[int], fits: bool) -> None:
    slices = [slice_("s", [device(f"d{at}") | shareable(units=20) for at in range(max(2, sum(sizes) // 20))])]
    claims = [claim(f"c{at}", request("r", capacity={"requests": {"units": str(n)}})) for at, n in enumerate(sizes)]
    start = time.process_time()
    outcome = allocate(node(), claims, [ANY], slices, (), Features(), steps_in(10))
    assert isinstance(outcome, Allocated if fits else Unallocatable)
    assert time.process_time() - start < 5
