"""Suggestions that make room by other pods: who may move or end, and in which order suggestions come."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.core import Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.scheduling import PriorityClass
from dray.inspect.explain import explain_pod
from dray.inspect.explanation import WaitExplanation
from dray.inspect.snapshot import Snapshot
from dray.recordings.recording import TYPES
from dray.sim.cluster import Cluster
from tests.sim.test_moving import Held, made, wanting

BUDGET = {
    "metadata": {"name": "all", "namespace": "default"},
    "spec": {"selector": {}},
    "status": {"disruptionsAllowed": 0},
}
FRAGMENTED = [Held("a", 0, 1), Held("b", 1, 1, may_move=False)]


def waiting(cluster: Cluster, devices: int = 2, priority: int = 0, *more: Any) -> WaitExplanation:
    wanting(cluster, devices, priority)
    objects = [one for type_ in TYPES for one in cluster.all(type_)]
    return explain_pod(Snapshot.of(*objects, *more), "default", "p")


def codes(found: WaitExplanation) -> list[str]:
    return [one.code for one in found.help]


def test_moves_come_first_and_new_devices_last() -> None:
    found = waiting(made([2, 2], FRAGMENTED))
    assert codes(found) == ["help-move-pods", "help-end-pods", "help-fewer-devices", "help-more-devices"]
    assert [change.verb for change in found.help[0].changes] == ["patch", "evict", "patch"]


@pytest.mark.wording
def test_what_is_said_of_moves_and_templates() -> None:
    found = waiting(made([2, 2], FRAGMENTED))
    assert found.help[0].text == "move pod a to n1: cordon n0, evict pod a, uncordon n0"
    assert found.cause.text.startswith("request r of claim template t2 needs 2 devices on one node")
    assert found.help[2].text == "ask for 1 instead of 2 devices in request r of claim template t2"


def test_nobody_moves_or_ends_against_a_disruption_budget() -> None:
    budget = msgspec.convert(BUDGET, PodDisruptionBudget)
    assert codes(waiting(made([2, 2], FRAGMENTED), 2, 0, budget)) == ["help-fewer-devices", "help-more-devices"]


def test_more_important_pods_are_left_alone() -> None:
    important = [one._replace(priority=9) for one in FRAGMENTED]
    assert codes(waiting(made([2, 2], important))) == ["help-fewer-devices", "help-more-devices"]


def test_of_pods_that_may_end_the_least_important_is_named() -> None:
    held = [Held("a", 0, 1, may_move=False, priority=5), Held("b", 1, 1, may_move=False, priority=3)]
    found = waiting(made([2, 2], held), priority=9)
    assert found.help[0].code == "help-end-pods"
    assert [change.name for change in found.help[0].changes] == ["b"]


def urgent(value: int, name: str = "urgent") -> PriorityClass:
    return msgspec.convert({"metadata": {"name": name}, "value": value}, PriorityClass)


def test_the_lowest_priority_class_that_helps_is_suggested() -> None:
    held = [Held("a", 0, 2, priority=100)]
    found = waiting(made([2], held), 2, 0, urgent(50, "low"), urgent(200), urgent(300, "highest"))
    [one] = [one for one in found.help if one.code == "help-use-priority"]
    assert msgspec.to_builtins(one) | {"changes": ()} == {
        "code": "help-use-priority",
        "where": "pod p",
        "priority_class": "urgent",
        "pods": ("pod a",),
        "node": "n0",
        "changes": (),
    }


def test_a_priority_that_preempts_against_a_budget_is_not_suggested() -> None:
    held = [Held("a", 0, 2, priority=100, guarded=True)]
    assert "help-use-priority" in codes(waiting(made([2], held, allowed=1), 2, 0, urgent(200)))
    assert "help-use-priority" not in codes(waiting(made([2], held, allowed=0), 2, 0, urgent(200)))


def test_who_may_not_read_budgets_is_not_told_of_other_pods() -> None:
    cluster = made([2, 2], FRAGMENTED)
    wanting(cluster, 2)
    objects = Snapshot.of(*[one for type_ in TYPES for one in cluster.all(type_)]).objects
    hidden = {type_: found for type_, found in objects.items() if type_ is not PodDisruptionBudget}
    found = explain_pod(Snapshot(hidden, frozenset({PodDisruptionBudget})), "default", "p")
    assert codes(found) == ["help-fewer-devices", "help-more-devices"]
    assert found.unread == ()
    assert len(hidden[Pod]) == 3
