"""Counting evictions for the status of rules."""

from __future__ import annotations

import msgspec
import pytest

from dray.api.types.core import Pod
from dray.api.types.meta import Condition
from dray.api.types.resource import DeviceTaintRule
from dray.controllers.evictions import EvictionCounts, Evictions, TaintedDevices, condition
from tests import objects

NOW = "2026-01-01T00:00:00Z"


def pod_named(name: str, namespace: str = "ns") -> Pod:
    return msgspec.convert(objects.pod(name, namespace=namespace, metadata={"uid": name}), Pod)


def test_pods_count_for_each_rule_until_they_are_evicted() -> None:
    evictions = Evictions()
    evictions.wait(pod_named("a"), frozenset({"r1", "r2"}))
    evictions.wait(pod_named("b", "other"), frozenset({"r1"}))
    assert evictions.counts("r1") == EvictionCounts(left=2, namespaces=2, evicted=0)
    assert evictions.evicted(pod_named("a")) == {"r1", "r2"}
    assert evictions.counts("r1") == EvictionCounts(left=1, namespaces=1, evicted=1)
    assert evictions.counts("r2") == EvictionCounts(left=0, namespaces=0, evicted=1)


def test_a_pod_that_need_not_leave_any_more_is_not_counted_as_evicted() -> None:
    evictions = Evictions()
    assert evictions.settle(pod_named("a")) is None
    evictions.wait(pod_named("a"), frozenset())
    assert evictions.settle(pod_named("a")) == frozenset()
    evictions.wait(pod_named("a"), frozenset({"r"}))
    evictions.wait(pod_named("a"), frozenset())
    assert evictions.counts("r") == EvictionCounts(0, 0, 0)


def test_only_news_is_told() -> None:
    evictions = Evictions()
    assert evictions.wait(pod_named("a"), frozenset({"r"})) == {"r"}
    assert evictions.wait(pod_named("a"), frozenset({"r"})) == frozenset()


def test_a_rule_that_is_gone_leaves_nothing_behind() -> None:
    evictions = Evictions()
    evictions.wait(pod_named("a"), frozenset({"r"}))
    evictions.forget_rule("r")
    assert evictions.settle(pod_named("a")) == frozenset()
    assert evictions.counts("r") == EvictionCounts(0, 0, 0)


def test_a_pod_that_two_rules_evict_is_counted_for_the_other_when_one_is_gone() -> None:
    evictions = Evictions()
    evictions.wait(pod_named("a"), frozenset({"gone", "left"}))
    evictions.forget_rule("gone")
    assert evictions.evicted(pod_named("a")) == {"left"}
    assert evictions.counts("left") == EvictionCounts(left=0, namespaces=0, evicted=1)


def rule(effect: str, told: Condition | None = None, generation: int = 1) -> DeviceTaintRule:
    tree = {
        "metadata": {"name": "r", "uid": "r", "generation": generation},
        "spec": {"taint": {"key": "k", "effect": effect}},
        "status": {"conditions": [msgspec.to_builtins(told)] if told else []},
    }
    return msgspec.convert(tree, DeviceTaintRule)


def test_the_condition_keeps_its_time_while_its_status_does() -> None:
    first = condition(rule("NoExecute"), EvictionCounts(3, 1, 0), TaintedDevices(), "then")
    assert first is not None
    told = condition(rule("NoExecute", first), EvictionCounts(1, 1, 2), TaintedDevices(), NOW)
    assert told is not None
    assert told.lastTransitionTime == "then"
    assert told.message == ("1 pod needs to be evicted in 1 namespace. 2 pods evicted since starting the controller.")
    done = condition(rule("NoExecute", told), EvictionCounts(0, 0, 3), TaintedDevices(), NOW)
    assert done is not None
    assert (done.status, done.lastTransitionTime) == ("False", NOW)


@pytest.mark.parametrize(
    ("effect", "counts", "reason", "message"),
    [
        (
            "NoExecute",
            EvictionCounts(2, 2, 0),
            "PodsPendingEviction",
            "2 pods need to be evicted in 2 different namespaces.",
        ),
        ("NoExecute", EvictionCounts(0, 0, 0), "NotStarted", ""),
        ("NoExecute", EvictionCounts(0, 0, 1), "Completed", "1 pod evicted since starting the controller."),
        ("NoSchedule", EvictionCounts(0, 0, 0), "OtherEffect", "Eviction only happens for the NoExecute effect."),
        (
            "None",
            EvictionCounts(1, 1, 0),
            "NoEffect",
            "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the "
            "effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger "
            "an update.",
        ),
    ],
)
def test_the_condition_tells_how_far_eviction_has_come(
    effect: str, counts: EvictionCounts, reason: str, message: str
) -> None:
    told = condition(rule(effect), counts, TaintedDevices(published=2, allocated=1), NOW)
    assert told is not None
    assert (told.reason, told.message) == (reason, message)


def test_a_condition_that_is_right_is_not_written_again() -> None:
    told = condition(rule("NoExecute"), EvictionCounts(0, 0, 0), TaintedDevices(), NOW)
    assert told is not None
    assert condition(rule("NoExecute", told), EvictionCounts(0, 0, 0), TaintedDevices(), NOW) is None


def test_a_condition_follows_the_generation_of_its_rule() -> None:
    told = condition(rule("None"), EvictionCounts(0, 0, 0), TaintedDevices(), NOW)
    assert told is not None
    again = condition(rule("None", told, generation=2), EvictionCounts(0, 0, 0), TaintedDevices(), NOW)
    assert again is not None
    assert again.observedGeneration == 2
