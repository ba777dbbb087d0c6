"""Attributes that requests compute: constraints see them in place of what drivers publish, as a plain search does."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import msgspec
import pytest

from bench._plain_search import Answer, TooSlow, plain_search
from dray.allocator import Allocated, Failed, Features, Index, Turn, Unallocatable, allocate, steps_in, verify
from dray.api.reasons.devices import InputCode, StepCode
from dray.api.types.resource import ResourceClaim, ResourceSlice
from tests.allocator.building import (
    ANY,
    DRIVER,
    NUMA,
    ROOT,
    Consuming,
    claim,
    device,
    node,
    random_consuming,
    random_instance,
    request,
    slice_,
    spec,
)
from tests.allocator.test_search import as_answer, names

ON = Features(derived_attributes=True)
NIC = "nic.example.org"
SHARED = "x.io/shared"


def deriving(expression: str, name: str = SHARED) -> dict[str, Any]:
    return {"derivedAttributes": [{"name": name, "expression": expression}]}


def of_driver(driver: str) -> str:
    return f'device.driver == "{driver}"'


GPUS = slice_("g", [device(f"g{at}", numa=at % 2) for at in range(4)])
NICS = slice_("n", [device(f"n{at}", node=f"numa-{1 - at % 2}") for at in range(2)], driver=NIC)
GPU_NUMA = f'device.attributes["{DRIVER}"].numa'
NIC_NUMA = f'int(device.attributes["{NIC}"].node.substring(5))'


def together(gpus: int = 1, nics: int = 1, **constraint: Any) -> ResourceClaim:
    return claim(
        "c",
        request("gpu", gpus, of_driver(DRIVER), **deriving(GPU_NUMA)),
        request("nic", nics, of_driver(NIC), **deriving(NIC_NUMA)),
        constraints=[constraint or {"matchAttribute": SHARED}],
    )


def test_devices_of_two_drivers_are_matched_by_what_requests_compute() -> None:
    outcome = allocate(node(), [together(2)], [ANY], [GPUS, NICS], features=ON)
    assert names(outcome) == [["g0", "g2", "n1"]]
    assert isinstance(outcome, Allocated)
    assert verify(outcome.results, node(), [together(2)], [ANY], [GPUS, NICS], features=ON) == []


def test_distinct_values_may_be_computed_too() -> None:
    outcome = allocate(node(), [together(1, 1, distinctAttribute=SHARED)], [ANY], [GPUS, NICS], features=ON)
    assert names(outcome) == [["g0", "n0"]]
    assert isinstance(
        allocate(node(), [together(2, 1, distinctAttribute=SHARED)], [ANY], [GPUS, NICS], features=ON), Unallocatable
    )


def test_what_is_computed_hides_what_is_published() -> None:
    devices = [device("a", **{ROOT: "p"}), device("b", **{ROOT: "q"})]
    asked = claim("c", request("r", 2, **deriving('"same"', ROOT)), match=(ROOT,))
    assert names(allocate(node(), [asked], [ANY], [slice_("s", devices)], features=ON)) == [["a", "b"]]


def test_two_requests_may_see_one_device_differently() -> None:
    devices = [device("a", **{ROOT: "p", NUMA: 0}), device("b", **{ROOT: "q", NUMA: 1})]
    first = request("r", 1, **deriving(f'device.attributes["{NUMA.partition("/")[0]}"].{NUMA.partition("/")[2]}'))
    second = request("s", 1, **deriving("1"))
    asked = claim("c", first, second, match=(SHARED,))
    assert names(allocate(node(), [asked], [ANY], [slice_("s", devices)], features=ON)) == [["b", "a"]]


def test_an_expression_that_fails_on_a_device_that_is_tried_stops_the_allocation() -> None:
    devices = [device("a", numa=0), device("b")]
    one = claim("c", request("r", 1, **deriving(GPU_NUMA)), match=(SHARED,))
    assert names(allocate(node(), [one], [ANY], [slice_("s", devices)], features=ON)) == [["a"]]
    two = claim("c", request("r", 2, **deriving(GPU_NUMA)), match=(SHARED,))
    outcome = allocate(node(), [two], [ANY], [slice_("s", devices)], features=ON)
    assert isinstance(outcome, Failed)
    assert (outcome.problem.code, outcome.problem.subject) == (InputCode.DERIVED_FAILED, SHARED)
    assert outcome.problem.device == f"{DRIVER}/p/b"
    everything = claim("c", request("r", None, **deriving(GPU_NUMA)), match=(SHARED,))
    assert isinstance(allocate(node(), [everything], [ANY], [slice_("s", devices)], features=ON), Failed)


def test_expressions_are_evaluated_only_on_devices_that_pass_the_selectors() -> None:
    devices = [device("b"), device("a", numa=0)]
    guard = f'has(device.attributes["{DRIVER}"].numa)'
    asked = claim("c", request("r", 1, guard, **deriving(GPU_NUMA)), match=(SHARED,))
    assert names(allocate(node(), [asked], [ANY], [slice_("s", devices)], features=ON)) == [["a"]]


def test_lists_that_are_computed_match_where_they_have_a_value_in_common() -> None:
    devices = [device("a", low=0, high=1), device("b", low=1, high=2), device("c", low=2, high=3)]
    both = f'[device.attributes["{DRIVER}"].low, device.attributes["{DRIVER}"].high]'
    pair = claim("c", request("r", 2, **deriving(both)), match=(SHARED,))
    three = claim("c", request("r", 3, **deriving(both)), match=(SHARED,))
    lists = msgspec.structs.replace(ON, list_type_attributes=True)
    assert names(allocate(node(), [pair], [ANY], [slice_("s", devices)], features=lists)) == [["a", "b"]]
    assert isinstance(allocate(node(), [three], [ANY], [slice_("s", devices)], features=lists), Unallocatable)
    assert isinstance(allocate(node(), [pair], [ANY], [slice_("s", devices)], features=ON), Unallocatable)


def test_without_the_gate_what_requests_compute_is_ignored_and_the_gate_is_named() -> None:
    outcome = allocate(node(), [together()], [ANY], [GPUS, NICS])
    assert isinstance(outcome, Unallocatable)
    lacking = outcome.explain().lacking
    assert lacking is not None
    assert (lacking.alternatives[0].lost_at.code, lacking.alternatives[0].lost_at.subject) == (
        StepCode.SUPPORTED,
        "DRADerivedAttributes",
    )


def test_many_devices_that_must_share_a_computed_value_are_found_at_once() -> None:
    """Four values, of which only the last has enough: a plain search takes longer than anybody waits."""
    sizes = [31, 31, 31, 32]
    gpus = [device(f"g{at}", numa=value) for value, size in enumerate(sizes) for at in range(size)]
    gpus = [{**one, "name": f"g{at}"} for at, one in enumerate(gpus)]
    asked = claim("c", *(request(f"r{at}", 1, **deriving(GPU_NUMA)) for at in range(32)), match=(SHARED,))
    slow = Features(derived_attributes=True)
    outcome = allocate(node(), [asked], [ANY], [slice_("s", gpus)], features=slow, steps=steps_in(30))
    assert isinstance(outcome, Allocated)


_EXPRESSIONS = (
    f'device.attributes["{DRIVER}"].?index.orValue(7)',
    f'device.attributes["{DRIVER}"].index',
    f'device.attributes["{DRIVER}"].?index.orValue(7) % 2 == 0',
    "device.driver",
    f'[device.attributes["{DRIVER}"].?index.orValue(0), device.attributes["{DRIVER}"].?level.orValue(1)]',
)


def computing(case: Consuming, random: Random) -> Consuming:
    """The same case, in which requests compute what constraints look at, and attributes may be lists."""
    claims = []
    for asked in case.instance.claims:
        tree = msgspec.to_builtins(asked)
        attributes = [
            c.get("matchAttribute") or c.get("distinctAttribute")
            for c in tree["spec"]["devices"].get("constraints", ())
        ]
        for one in tree["spec"]["devices"]["requests"]:
            for part in [one["exactly"]] if one.get("exactly") else one["firstAvailable"]:
                part["derivedAttributes"] = [
                    {"name": name, "expression": random.choice(_EXPRESSIONS)}
                    for name in dict.fromkeys(attributes)
                    if random.randint(1, 100) <= 60
                ]
        claims.append(msgspec.convert(tree, ResourceClaim))
    features = msgspec.structs.replace(
        case.instance.features, derived_attributes=True, list_type_attributes=random.choice([True, False])
    )
    slices = [listing(part, random) for part in case.instance.slices] if features.list_type_attributes else None
    return case._replace(
        instance=case.instance._replace(claims=claims, features=features, slices=slices or case.instance.slices)
    )


def listing(part: ResourceSlice, random: Random) -> ResourceSlice:
    tree = msgspec.to_builtins(part)
    for offered in tree["spec"].get("devices") or ():
        if ROOT in offered.get("attributes", {}) and random.randint(1, 100) <= 50:
            offered["attributes"][ROOT] = {"strings": random.sample("pqr", random.choice([1, 2]))}
    return msgspec.convert(tree, ResourceSlice)


def agrees(case: Consuming) -> bool:
    try:
        expected: Answer = plain_search(*case.instance, deadline=time.monotonic() + 0.5, shares=case.shares)
    except TooSlow:
        return True
    return as_answer(allocate(*case.instance, shares=case.shares)) == expected


@pytest.mark.wording
@pytest.mark.parametrize("start", range(0, 1200, 400))
def test_seeded_instances_agree_with_a_plain_search(start: int) -> None:
    for seed in range(start, start + 400):
        random = Random(seed)
        plain = Consuming(random_instance(random), []) if seed % 2 else random_consuming(random)
        assert agrees(computing(plain, random)), seed


def test_an_index_that_defers_leaves_costly_expressions_over_and_gets_on() -> None:
    numbers = str([*range(40)])
    slow = f"{numbers}.map(a, {numbers}.filter(b, string(a + b) != device.driver).size())[0]"
    index = Index(ON, defers=True)
    index.upsert_class(ANY)
    index.upsert_slice(slice_("s", [device(f"d{at}") for at in range(2)]))
    index.upsert_node(node())
    asked = claim("c", {"name": "r", "exactly": spec(2, **deriving(slow))}, match=(SHARED,))
    assert list(index.fits([asked], turn=Turn())) == []
    [work] = index.left_over().works
    assert work.run(lambda: False)
    assert list(index.fits([asked], turn=Turn())) == ["n"]
