"""Thousands of waiting pods: every pod gets a node, nothing is given twice, and the plan is near its lower bound."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.autoscaling import GROUPS, case, cluster_of
from dray.autoscaling.planner import plan


@pytest.mark.slow
def test_a_large_plan_serves_every_pod_once_and_is_near_its_lower_bound() -> None:
    groups, objects = case(0)
    found = plan(cluster_of(groups, objects), groups)
    pods = Counter(pod.pod for node in found.nodes for pod in node.pods)
    devices = Counter(use.device for node in found.nodes for pod in node.pods for use in pod.devices)
    sizes = {f"{model}-{size}": size for model, size, _ in GROUPS}
    assert (len(pods), {*pods.values()}) == (5000, {1})
    assert {*devices.values()} == {1}
    assert all(sum(len(pod.devices) for pod in node.pods) <= sizes[node.group] for node in found.nodes)
    assert not found.unhelped
    assert found.lower_bound <= found.cost <= 1.05 * found.lower_bound
    assert found.price == pytest.approx(
        sum(group.price * found.increases.get(group.name, 0) for group in groups.groups)
    )
