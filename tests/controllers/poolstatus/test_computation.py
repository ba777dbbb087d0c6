"""Counting: what is allocated, unavailable and available, and that it always adds up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.descriptions import describe
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.controllers.poolstatus.computation import (
    LONGEST_PROBLEM,
    PoolStatusAnswer,
    answer,
    complete_status,
    count,
    failed_status,
    shortened,
)
from tests.controllers.poolstatus.objects import DRIVER, claim, slice_, tainted

NOW = "2026-02-07T10:30:00Z"


def ask(slices: list[ResourceSlice], claims: list[ResourceClaim] = [], **options: Any) -> PoolStatusAnswer:  # noqa: B006 (only read)
    return answer(slices, lambda driver, pool: claims, **options)


def numbers(slices: list[ResourceSlice], *claims: ResourceClaim) -> tuple[int, int, int, int]:
    pool = count(slices, claims)
    return pool.total, pool.allocated, pool.available, pool.unavailable


def test_nothing_allocated() -> None:
    assert numbers([slice_()]) == (2, 0, 2, 0)


def test_allocated_devices_are_not_available() -> None:
    assert numbers([slice_()], claim("c", "gpu-0")) == (2, 1, 1, 0)
    assert numbers([slice_()], claim("c", "gpu-0", "gpu-1")) == (2, 2, 0, 0)


def test_a_pending_claim_holds_nothing() -> None:
    assert numbers([slice_()], claim("c")) == (2, 0, 2, 0)


def test_claims_of_other_pools_and_drivers_do_not_count() -> None:
    others = claim("a", "gpu-0", pool="node-2"), claim("b", "gpu-0", driver="other.example.com")
    assert numbers([slice_()], *others) == (2, 0, 2, 0)


def test_admin_access_does_not_count() -> None:
    assert numbers([slice_()], claim("c", "gpu-0", admin=True)) == (2, 0, 2, 0)
    assert numbers([slice_()], claim("c", "gpu-0", admin=False)) == (2, 1, 1, 0)


def test_an_allocated_device_that_is_no_longer_published_does_not_count() -> None:
    assert numbers([slice_()], claim("c", "gpu-7")) == (2, 0, 2, 0)


def test_a_device_that_several_claims_share_counts_once() -> None:
    assert numbers([slice_()], claim("a", "gpu-0"), claim("b", "gpu-0")) == (2, 1, 1, 0)


@pytest.mark.parametrize(("effect", "unavailable"), [("NoSchedule", 1), ("NoExecute", 1), ("None", 0)])
def test_a_taint_that_keeps_pods_away_makes_a_device_unavailable(effect: str, unavailable: int) -> None:
    assert numbers([slice_("s", [tainted("gpu-0", effect), "gpu-1"])]) == (2, 0, 2 - unavailable, unavailable)


def test_a_device_both_tainted_and_allocated_counts_as_allocated_only() -> None:
    assert numbers([slice_("s", [tainted("gpu-0"), "gpu-1"])], claim("c", "gpu-0")) == (2, 1, 1, 0)


def test_devices_of_all_slices_add_up() -> None:
    slices = [slice_("a", ["d0", "d1"], of=2), slice_("b", ["d2"], of=2)]
    pool = count(slices, [claim("c", "d2")])
    assert (pool.total, pool.allocated, pool.available, pool.slices) == (3, 1, 2, 2)


def test_older_generations_are_ignored_and_no_error() -> None:
    pool = count(
        [slice_("old", ["d0", "d1", "d2"], generation=4), slice_("new", ["d9"], generation=5)], [claim("c", "d0")]
    )
    assert (pool.generation, pool.total, pool.allocated, pool.slices, pool.problem) == (5, 1, 0, 1, None)


@pytest.mark.wording
def test_an_incomplete_pool_has_no_available_devices_but_keeps_its_allocations() -> None:
    pool = count([slice_(of=2)], [claim("c", "gpu-0")])
    assert (pool.total, pool.allocated, pool.available, pool.unavailable) == (2, 1, 0, 1)
    assert pool.problem == "PoolIncomplete: incomplete: 1 of 2 slices are published"


@pytest.mark.wording
def test_a_device_published_twice_counts_once_and_spoils_the_pool() -> None:
    pool = count([slice_("a", ["d0", "d1"], of=2), slice_("b", ["d0"], of=2)], [])
    assert (pool.total, pool.available, pool.unavailable) == (2, 0, 2)
    assert pool.problem == "device d0 appears in multiple slices"


def test_a_pool_has_a_node_if_all_its_slices_are_of_that_node() -> None:
    assert count([slice_()], []).node == "node-1"
    assert count([slice_(node=None)], []).node is None
    assert count([slice_("a", ["d0"], of=2), slice_("b", ["d1"], of=2, node="node-2")], []).node is None


# Which pools


def test_a_driver_alone_means_all_its_pools_by_name() -> None:
    found = ask([slice_(pool="b"), slice_(pool="a"), slice_(pool="c")])
    assert [pool.name for pool in found.pools] == ["a", "b", "c"]
    assert found.matching == 3


def test_a_pool_name_means_that_pool() -> None:
    found = ask([slice_(pool="a"), slice_(pool="b")], pool="b")
    assert ([pool.name for pool in found.pools], found.matching) == (["b"], 1)


def test_no_matching_pool_is_an_answer_too() -> None:
    assert ask([]) == PoolStatusAnswer((), 0)
    assert complete_status(ask([]), NOW)["pools"] == []


def test_the_limit_keeps_the_first_and_counts_all() -> None:
    found = ask([slice_(pool=f"p{number}") for number in range(5)], limit=2)
    assert ([pool.name for pool in found.pools], found.matching) == (["p0", "p1"], 5)
    status = complete_status(found, NOW)
    assert status["poolCount"] == 5
    assert status["conditions"][0]["message"] == "Processed 2 pools of 5"


def test_pools_beyond_the_limit_are_not_listed_but_their_problems_are() -> None:
    found = ask([slice_(pool="a"), slice_(pool="b"), slice_(pool="c", of=2)], limit=1)
    status = complete_status(found, NOW)
    assert [pool["poolName"] for pool in status["pools"]] == ["a"]
    (problem,) = status["validationErrors"]
    assert problem.startswith("pool c: PoolIncomplete")


# What is written


@pytest.mark.wording
def test_a_complete_status_says_everything() -> None:
    status = complete_status(ask([slice_(), slice_("x", pool="other", of=2, node=None)], [claim("c", "gpu-1")]), NOW)
    assert status == {
        "observationTime": NOW,
        "poolCount": 2,
        "pools": [
            {
                "driver": DRIVER,
                "poolName": "node-1",
                "nodeName": "node-1",
                "generation": 1,
                "resourceSliceCount": 1,
                "totalDevices": 2,
                "allocatedDevices": 1,
                "availableDevices": 1,
                "unavailableDevices": 0,
            },
            {
                "driver": DRIVER,
                "poolName": "other",
                "generation": 1,
                "validationError": "PoolIncomplete: incomplete: 1 of 2 slices are published",
            },
        ],
        "validationErrors": ["pool other: PoolIncomplete: incomplete: 1 of 2 slices are published"],
        "conditions": [
            {
                "type": "Complete",
                "status": "True",
                "reason": "CalculationComplete",
                "message": "Processed 2 pools",
                "lastTransitionTime": NOW,
            }
        ],
    }


def test_at_most_ten_problems_are_listed_each_short_enough() -> None:
    found = ask([slice_(pool=f"{'p' * 250}{number:02}", of=2) for number in range(12)])
    status = complete_status(found, NOW)
    assert len(status["validationErrors"]) == 10
    assert all(len(text.encode()) <= 256 for text in status["validationErrors"])
    assert sum("validationError" in pool for pool in status["pools"]) == 12


def test_a_failed_computation_says_why() -> None:
    status = failed_status(KeyError("boom"), NOW)
    [condition] = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Failed", "True", "CalculationFailed")
    assert condition["message"] == "KeyError: 'boom'"
    assert status["observationTime"] == NOW


def test_the_description_of_conditions_names_the_types_that_are_written() -> None:
    told = describe("io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequestStatus", "conditions")
    for status in (complete_status(ask([]), NOW), failed_status(KeyError("boom"), NOW)):
        assert status["conditions"][0]["type"] in told


# Always true

names = st.sampled_from(["d0", "d1", "d2", "d3"])
device = st.one_of(names, st.builds(tainted, names, st.sampled_from(["None", "NoSchedule", "NoExecute"])))
slices = st.builds(
    slice_,
    st.sampled_from(["a", "b", "c"]),
    st.lists(device, max_size=4),
    generation=st.integers(1, 2),
    of=st.integers(1, 3),
)
claims = st.builds(lambda held, admin: claim("c", *held, admin=admin), st.lists(names, max_size=3), st.booleans())


@given(st.lists(slices, min_size=1, max_size=4), st.lists(claims, max_size=4))
def test_counts_add_up_whatever_is_published_and_held(slices: list[ResourceSlice], claims: list[ResourceClaim]) -> None:
    pool = count(slices, claims)
    newest = max(one.spec.pool.generation for one in slices)
    published = {d.name for one in slices if one.spec.pool.generation == newest for d in one.spec.devices}
    assert pool.total == len(published) == pool.allocated + pool.available + pool.unavailable
    assert min(pool.allocated, pool.available, pool.unavailable) >= 0
    if pool.problem:
        assert pool.available == 0
    msgspec.json.encode(complete_status(PoolStatusAnswer((pool,), 1), NOW))


def test_long_texts_are_cut_to_the_bytes_that_the_api_takes() -> None:
    assert shortened("x" * LONGEST_PROBLEM) == "x" * LONGEST_PROBLEM
    assert shortened("x" * 300) == "x" * 253 + "..."
    cut = shortened("é" * 200)
    assert len(cut.encode()) <= LONGEST_PROBLEM
    assert cut.startswith("é" * 126)
