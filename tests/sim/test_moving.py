"""Plans of moves, compared with the shortest sequence that a search through all states finds."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.types.core import Pod
from dray.sim.cluster import Cluster
from dray.sim.moving import MovePlanner, MoveSearch
from dray.sim.what_if import is_placed
from tests import objects

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}


class Held(NamedTuple):
    """A pod that runs: where, with how many devices, and whether it may move."""

    name: str
    node: int
    devices: int
    may_move: bool = True
    priority: int = 0
    guarded: bool = False


def owned(name: str, devices: int, **more: Any) -> dict[str, Any]:
    return objects.pod(name, namespace="default", templates=[f"t{devices}"], **more)


def made(free: list[int], held: list[Held], allowed: int = 1) -> Cluster:
    """A cluster whose nodes have so many devices, some of which pods hold."""
    cluster = Cluster()
    cluster.add(objects.device_class("gpu"))
    for number, devices in enumerate(free):
        name = f"n{number}"
        cluster.add(objects.node(name, allocatable={"cpu": "64", "pods": "110"}))
        cluster.add(objects.resource_slice(name, *[f"d{at}" for at in range(devices)], node=name))
    for count in range(1, 5):
        cluster.add(objects.template(f"t{count}", objects.request(count=count), namespace="default"))
    guard = {"metadata": {"name": "guard", "namespace": "default"}, "apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}  # fmt: skip
    cluster.add({**guard, "spec": {"selector": {"matchLabels": {"guarded": "yes"}}}, "status": {"disruptionsAllowed": allowed}})  # fmt: skip
    for one in held:
        metadata = {"ownerReferences": [OWNER] if one.may_move else [], "labels": {"guarded": "yes"} if one.guarded else {}}  # fmt: skip
        info = cluster.model.state.table.get(f"n{one.node}")
        assert info is not None
        cluster.among = 1 << info.position
        cluster.submit(owned(one.name, one.devices, metadata=metadata, priority=one.priority))
        assert cluster.settle() == 1
    cluster.among = None
    return cluster


def wanting(cluster: Cluster, devices: int, priority: int = 0) -> list[Pod]:
    cluster.submit(owned("p", devices, priority=priority))
    cluster.settle()
    found = cluster.get(Pod, "p", "default")
    assert found is not None
    return [found]


def planned(cluster: Cluster, devices: int, most: int = 3) -> MoveSearch:
    return MovePlanner(cluster).plan(wanting(cluster, devices), most)


def shortest(sizes: list[int], held: list[Held], wanted: int, most: int) -> int | None:
    """The fewest moves, by a search through all states; None where there is no plan with so few."""
    start = tuple(one.node for one in held)
    seen, queue = {start}, deque([(start, 0)])
    while queue:
        places, moves = queue.popleft()
        left = [*sizes]
        for one, place in zip(held, places, strict=True):
            left[place] -= one.devices
        if max(left) >= wanted:
            return moves
        for at, one in enumerate(held if moves < most else ()):
            for node in range(len(sizes)):
                after = (*places[:at], node, *places[at + 1 :])
                if one.may_move and node != places[at] and left[node] >= one.devices and after not in seen:
                    seen.add(after)
                    queue.append((after, moves + 1))
    return None


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_no_plan_has_fewer_moves(seed: int) -> None:
    dice = Random(seed)
    sizes = [dice.randint(1, 4) for _ in range(dice.randint(2, 4))]
    left, held = [*sizes], []
    for number in range(dice.randint(2, 6)):
        node, devices = dice.randrange(len(sizes)), dice.randint(1, 2)
        if left[node] >= devices:
            left[node] -= devices
            held.append(Held(f"q{number}", node, devices, may_move=dice.random() < 0.8))
    wanted = dice.randint(1, 4)
    found = planned(made(sizes, held), wanted)
    expected = shortest(sizes, held, wanted, 3)
    assert found.complete
    assert (len(found.plan.moves) if found.plan is not None else None) == expected


def test_a_plan_can_be_carried_out() -> None:
    cluster = made([4, 4, 2], [Held("a", 0, 2), Held("b", 1, 1), Held("c", 2, 1)])
    [wanted] = wanting(cluster, 4)
    plan = MovePlanner(cluster).plan([wanted]).plan
    assert plan is not None
    assert not is_placed(cluster, wanted)  # nothing was changed
    assert [pod.metadata.name for pod in cluster.pods_on("n0")] == ["a"]
    assert [(move.pod, move.source) for move in plan.moves] == [("default/b", "n1")]
    assert [(one.pod, one.node) for one in plan.pods] == [("default/p", "n1")]


def test_a_pod_for_which_there_is_no_place_makes_room_first() -> None:
    plan = planned(made([3, 2, 1], [Held("a", 0, 2), Held("b", 1, 1)]), 3).plan
    assert plan is not None
    assert [(move.pod, move.target) for move in plan.moves] == [("default/b", "n2"), ("default/a", "n1")]


@pytest.mark.parametrize(
    ("held", "allowed", "is_found"),
    [
        (Held("a", 0, 1), 0, True),
        (Held("a", 0, 1, guarded=True), 1, True),
        (Held("a", 0, 1, guarded=True), 0, False),
        (Held("a", 0, 1, may_move=False), 1, False),
        (Held("a", 0, 1, priority=1), 1, False),
    ],
    ids=["alone", "within-its-budget", "beyond-its-budget", "without-controller", "more-important"],
)
def test_who_may_move(held: Held, allowed: int, is_found: bool) -> None:
    assert (planned(made([2, 1], [held], allowed), 2).plan is not None) == is_found


def test_the_less_important_of_two_pods_moves() -> None:
    cluster = made([2, 2, 1], [Held("a", 0, 1, priority=5), Held("b", 1, 1, priority=3)])
    plan = MovePlanner(cluster).plan(wanting(cluster, 2, priority=9)).plan
    assert plan is not None
    assert [move.pod for move in plan.moves] == ["default/b"]


def test_pods_of_a_gang_stay_together() -> None:
    cluster = made([2, 1], [])
    gang = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    group = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "PodGroup"}
    cluster.add({**group, "metadata": {"name": "g", "namespace": "default"}, "spec": gang})
    cluster.among = 1
    cluster.submit(owned("a", 1, metadata={"ownerReferences": [OWNER]}, schedulingGroup={"podGroupName": "g"}))
    assert cluster.settle() == 1
    cluster.among = None
    assert planned(cluster, 2).plan is None


def test_a_search_says_when_it_was_not_complete() -> None:
    cluster = made([4, 4, 4], [Held(f"q{number}", number % 3, 1) for number in range(9)])
    found = MovePlanner(cluster, tries=5).plan(wanting(cluster, 4))
    assert (found.plan, found.complete) == (None, False)
