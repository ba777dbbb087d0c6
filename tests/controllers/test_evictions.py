"""Counting evictions for the status of rules."""

from __future__ import annotations

import msgspec

from dray.api.types.core import Pod
from dray.api.types.meta import Condition
from dray.controllers.evictions import Counts, Evictions, condition

NOW = "2026-01-01T00:00:00Z"


def pod(name: str, namespace: str = "ns") -> Pod:
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace, "uid": name}}, Pod)


def test_pods_count_for_each_rule_until_they_are_evicted() -> None:
    evictions = Evictions()
    evictions.wait(pod("a"), frozenset({"r1", "r2"}))
    evictions.wait(pod("b", "other"), frozenset({"r1"}))
    assert evictions.counts("r1") == Counts(left=2, namespaces=2, evicted=0)
    assert evictions.evicted(pod("a")) == {"r1", "r2"}
    assert evictions.counts("r1") == Counts(left=1, namespaces=1, evicted=1)
    assert evictions.counts("r2") == Counts(left=0, namespaces=0, evicted=1)


def test_a_pod_that_need_not_leave_any_more_is_not_counted_as_evicted() -> None:
    evictions = Evictions()
    assert evictions.settle(pod("a")) is None
    evictions.wait(pod("a"), frozenset())
    assert evictions.settle(pod("a")) == frozenset()
    evictions.wait(pod("a"), frozenset({"r"}))
    evictions.wait(pod("a"), frozenset())
    assert evictions.counts("r") == Counts(0, 0, 0)


def test_only_news_is_told() -> None:
    evictions = Evictions()
    assert evictions.wait(pod("a"), frozenset({"r"})) == {"r"}
    assert evictions.wait(pod("a"), frozenset({"r"})) == frozenset()


def test_a_rule_that_is_gone_leaves_nothing_behind() -> None:
    evictions = Evictions()
    evictions.wait(pod("a"), frozenset({"r"}))
    evictions.forget_rule("r")
    assert evictions.settle(pod("a")) == frozenset()
    assert evictions.counts("r") == Counts(0, 0, 0)


def test_the_condition_keeps_its_time_while_its_status_does() -> None:
    earlier = Condition(
        type="EvictionInProgress", status="True", reason="PodsPendingEviction", message="", lastTransitionTime="then"
    )
    told = condition("NoExecute", Counts(1, 1, 2), earlier, NOW)
    assert told is not None
    assert told["lastTransitionTime"] == "then"
    assert told["message"] == (
        "1 pod needs to be evicted in 1 namespace. 2 pods evicted since starting the controller."
    )
    done = condition("NoExecute", Counts(0, 0, 3), earlier, NOW)
    assert done is not None
    assert (done["status"], done["lastTransitionTime"]) == ("False", NOW)


def test_a_condition_that_is_right_is_not_written_again() -> None:
    told = condition("NoExecute", Counts(0, 0, 0), None, NOW)
    assert told is not None
    assert condition("NoExecute", Counts(0, 0, 0), msgspec.convert(told, Condition), NOW) is None
