"""The sizes of a deployment's sets, step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dray.api.types.apps import ReplicaSet
from dray.controllers.workloads.revisions import DESIRED_REPLICAS, MAX_REPLICAS, Sets
from dray.controllers.workloads.rollout import (
    Resize,
    is_scaled,
    max_replicas,
    max_surge,
    max_unavailable,
    new_size,
    rolling_step,
    scaling_step,
    size,
    wanted,
)
from tests.controllers.workloads.objects import deployment, replica_set


def sizes(steps: list[Resize]) -> dict[str, int]:
    return {step.replica_set.metadata.name: step.replicas for step in steps}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),  # up, and down
        (1, "25%", "25%", (1, 0)),
        (4, 0, 0, (0, 1)),  # something must move
        (4, 0, "10%", (0, 1)),
        (4, 2, 9, (2, 4)),
        (0, 1, 1, (1, 0)),
    ],
)
def test_shares_are_rounded_in_favour_of_availability(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    subject = deployment(replicas, surge, unavailable)
    assert (max_surge(subject), max_unavailable(subject)) == expected


def test_a_new_set_begins_as_large_as_the_surge_allows() -> None:
    assert new_size(deployment(10, 3), 0, 0) == 10
    assert new_size(deployment(10, 3), 0, 10) == 3
    assert new_size(deployment(10, 3), 5, 8) == 5
    assert new_size(deployment(10, 3), 12, 0) == 10
    assert new_size(deployment(10, strategy={"type": "Recreate"}), 0, 10) == 10


def test_broken_old_pods_go_before_working_ones() -> None:
    old = [replica_set("broken", 3, 0, age=1), replica_set("working", 5, 5, age=2)]
    steps = rolling_step(deployment(8, 0, 1), replica_set("new", 0), old)
    assert sizes(steps) == {"broken": 2}
    steps = rolling_step(deployment(8, 2, 4), replica_set("new", 2, 2), old)
    assert sizes(steps) == {"broken": 0, "working": 2}


def test_pods_that_a_set_is_about_to_lose_are_not_counted_twice() -> None:
    shrunk = replace(replica_set("old", 6), status=replace(replica_set("old", 8).status, availableReplicas=8))
    assert rolling_step(deployment(8, 2, 2), replica_set("new", 4, 0), [shrunk]) == []


def annotated(name: str, replicas: int, desired: int, maximum: int, age: int) -> ReplicaSet:
    marks = {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(maximum)}
    return replica_set(name, replicas, age=age, annotations=marks)


def test_a_change_of_size_is_noticed_by_the_annotations() -> None:
    sets = Sets(annotated("new", 5, 10, 13, 0), [annotated("old", 8, 10, 13, 9)])
    assert not is_scaled(deployment(10, 3, 2), sets)
    assert is_scaled(deployment(15, 3, 2), sets)
    assert not is_scaled(deployment(15), Sets(replica_set("new", 5), []))  # it says nothing


def test_a_change_of_size_is_shared_in_proportion() -> None:
    sets = Sets(annotated("new", 5, 10, 13, 0), [annotated("old", 8, 10, 13, 9)])
    assert sizes(scaling_step(deployment(15, 3, 2), sets)) == {"old": 11, "new": 7}
    assert sizes(scaling_step(deployment(0, 3, 2), sets)) == {"old": 0, "new": 0}
    only = Sets(annotated("new", 5, 5, 6, 0), [replica_set("old", 0)])
    assert sizes(scaling_step(deployment(9), only)) == {"new": 9}
    nothing = Sets(None, [replica_set("older", 0, age=9), replica_set("old", 0)])
    assert sizes(scaling_step(deployment(9), nothing)) == {"old": 9}


@given(st.integers(1, 40), st.integers(0, 40), st.lists(st.integers(1, 30), min_size=2, max_size=5))
def test_proportional_scaling_uses_exactly_the_room_there_is(goal: int, surge: int, counts: list[int]) -> None:
    before = sum(counts)
    sets = [annotated(f"s{n}", count, before, before, n) for n, count in enumerate(counts)]
    steps = scaling_step(deployment(goal, surge, 1), Sets(None, sets))
    assert sum(step.replicas for step in steps) == goal + surge
    assert all(step.replicas >= 0 for step in steps)


@given(st.integers(0, 20), st.integers(0, 6), st.integers(0, 6), st.lists(st.integers(0, 20), max_size=3), st.data())
def test_every_rolling_update_ends_and_keeps_its_bounds(
    goal: int, surge: int, unavailable: int, counts: list[int], data: st.DataObject
) -> None:
    subject = deployment(goal, surge, unavailable)
    new = replica_set("new", 0, age=0)
    old = [replica_set(f"old{n}", count, age=n + 1) for n, count in enumerate(counts)]
    least = min(wanted(subject) - max_unavailable(subject), sum(counts))
    most = max(max_replicas(subject), sum(counts))
    for _ in range(200):
        steps = rolling_step(subject, new, old)
        by_name = sizes(steps)
        if not steps and new.status.availableReplicas == size(new):
            break
        new, old = _resized(new, by_name), [_resized(one, by_name) for one in old]
        assert size(new) + sum(map(size, old)) <= most
        assert _available(new, old) >= least
        ready = data.draw(st.integers(new.status.availableReplicas, size(new)))
        new = _with_available(new, max(ready, min(size(new), new.status.availableReplicas + 1)))
    assert size(new) == goal
    assert all(size(one) == 0 for one in old)


def _resized(one: ReplicaSet, by_name: dict[str, int]) -> ReplicaSet:
    replicas = by_name.get(one.metadata.name, size(one))
    resized = replace(one, spec=replace(one.spec, replicas=replicas))
    return _with_available(resized, min(one.status.availableReplicas, replicas))


def _with_available(one: ReplicaSet, available: int) -> ReplicaSet:
    return replace(one, status=replace(one.status, availableReplicas=available))


def _available(new: ReplicaSet, old: list[ReplicaSet]) -> int:
    return new.status.availableReplicas + sum(one.status.availableReplicas for one in old)
