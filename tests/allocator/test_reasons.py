"""Reasons count where devices are lost, and name the smallest set of requests that conflict."""

from typing import Any

import pytest

from dray.allocator import Unallocatable, allocate
from dray.api.reasons.devices import DeviceStep, Reasons, StepCode
from dray.api.reasons.wording import line, tree
from dray.api.types.resource import ResourceClaim
from tests.allocator.building import (
    ANY,
    DRIVER,
    GPU,
    ROOT,
    alternatives,
    claim,
    device,
    index_below,
    node,
    request,
    slice_,
    spec,
)


def why(devices: list[dict[str, Any]], *claims: ResourceClaim, taken: tuple[str, ...] = ()) -> Reasons:
    used = [(DRIVER, "p", name) for name in taken]
    outcome = allocate(node(), list(claims), [ANY, GPU], [slice_("s", devices)], used)
    assert isinstance(outcome, Unallocatable), outcome
    return outcome.explain()


@pytest.mark.wording
def test_each_step_tells_how_many_devices_are_left() -> None:
    devices = [device(f"d{at}", index=at) for at in range(6)]
    devices[0]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    found = why(devices, claim("a", request("r", 2, index_below(4), index_below(3), cls="gpu")), taken=("d1",))
    assert found.requests[0].alternatives[0].steps == (
        DeviceStep(StepCode.PUBLISHED, 6),
        DeviceStep(StepCode.CLASS, 6, "gpu"),
        DeviceStep(StepCode.SELECTOR, 4, number=0),
        DeviceStep(StepCode.SELECTOR, 3, number=1),
        DeviceStep(StepCode.TOLERATED, 2),
        DeviceStep(StepCode.FREE, 1),
    )
    steps = "6 published, 6 match class gpu, 4 match selector #0, 3 match selector #1, 2 tolerated, 1 free"
    assert line(found) == f"claim ns/a: request r needs 2 devices: {steps}"


@pytest.mark.wording
def test_the_line_ends_where_the_devices_end() -> None:
    found = why([device("d0", index=7)], claim("a", request("r", 1, index_below(1), cls="gpu")))
    assert line(found).endswith("1 published, 1 match class gpu, 0 match selector #0")


@pytest.mark.wording
def test_every_alternative_is_accounted_for() -> None:
    found = why([device("d0")], claim("a", alternatives("r", two=spec(2), three=spec(3))))
    assert "request r/two needs 2 devices" in line(found)
    assert "; or request r/three needs 3 devices" in line(found)
    assert "alternative r/two needs 2 devices: too few" in tree(found)


@pytest.mark.wording
def test_a_constraint_that_no_value_can_meet_is_named_with_the_best_value() -> None:
    devices = [device(f"d{at}", **{ROOT: root}) for at, root in enumerate("ppqq")]
    found = why(devices, claim("a", request("x", 2), request("y"), match=(ROOT,)))
    assert line(found) == f"claim ns/a: requests x, y need 3 devices that share {ROOT}: its best value, p, has 2 free"


@pytest.mark.wording
def test_a_constraint_on_an_attribute_that_nobody_has() -> None:
    found = why([device("d0"), device("d1")], claim("a", request("x"), request("y"), match=("x.io/nope",)))
    assert "0 share a value of x.io/nope" in line(found)


@pytest.mark.wording
def test_requests_that_only_together_ask_for_too_much_are_named() -> None:
    devices = [device(f"d{at}", index=at) for at in range(8)]
    few = [claim(f"c{at}", request("r", 1, index_below(2))) for at in range(3)]
    found = why(devices, claim("a", request("r", 3)), *few)
    assert found.conflict is not None
    assert found.conflict.requests == (("ns/c0", "r"), ("ns/c1", "r"), ("ns/c2", "r"))
    assert (found.conflict.needed, found.conflict.devices) == (3, 2)
    assert line(found).endswith("they need 3 devices, and only 2 can serve any of them")


def test_a_pair_in_conflict_is_found_before_larger_sets() -> None:
    devices = [device(f"d{at}", index=at) for at in range(3)]
    found = why(
        devices, claim("a", request("r", 1)), claim("b", request("r", 2)), claim("c", request("r", 1, index_below(1)))
    )
    assert found.conflict is not None
    assert len(found.conflict.requests) == 3
    pair = why(devices, claim("a", request("r", 2)), claim("b", request("r", 2)), claim("c", request("r", 1)))
    assert pair.conflict is not None
    assert pair.conflict.requests == (("ns/a", "r"), ("ns/b", "r"))


@pytest.mark.wording
def test_unusable_pools_are_mentioned() -> None:
    slices = [slice_("s", [device("d")], count=2)]
    outcome = allocate(node(), [claim("a", request("r"))], [ANY], slices)
    assert isinstance(outcome, Unallocatable)
    assert line(outcome.explain()).endswith(f"; pool {DRIVER}/p is being updated")
    assert f"pool {DRIVER}/p is being updated: its devices are not used" in tree(outcome.explain())


@pytest.mark.wording
def test_the_tree_marks_where_devices_were_lost() -> None:
    found = why([device("d0")], claim("a", request("r")), taken=("d0",))
    assert tree(found).splitlines() == [
        "node n",
        "  claim ns/a, request r",
        "    needs 1 device: too few",
        "         1 published",
        "         1 match class any",
        "         1 tolerated",
        "         0 free  <- here",
    ]
