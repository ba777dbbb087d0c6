"""Preemption without a scheduler: victims as in Kubernetes' rule, with exact checks of what fits."""

from __future__ import annotations

import random

import pytest

from dray.api.gates import FeatureGates
from dray.core.attempt import PreemptionPlan, Refused
from dray.core.configuration import Configuration
from dray.core.model import ClusterModel
from tests.core.preemption_cases import PREEMPTOR, Case, random_case

GATES = FeatureGates.of(
    {
        "GenericWorkload": True,
        "DRAWorkloadResourceClaims": True,
        "DRAPartitionableDevices": True,
        "DRAConsumableCapacity": True,
    }
)
CASES = 300


def model_of(case: Case) -> ClusterModel:
    model = ClusterModel(GATES, Configuration().profiles)
    for one in case.objects():
        model.put(one)
    return model


def plan_of(model: ClusterModel, name: str = PREEMPTOR) -> PreemptionPlan | Refused | None:
    """What preemption can do for a pod: a plan, or the refusal; None where the pod fits without it."""
    waiting = model.queue.get(f"uid-{name}")
    assert waiting is not None
    decision = model.decide(model.begin(waiting))
    if isinstance(decision, Refused):
        return decision.plan or decision
    return None


@pytest.mark.parametrize("block", range(10))
def test_the_victims_are_those_of_kubernetes_rule_and_each_is_necessary(block: int) -> None:
    seen = helped = 0
    chance = random.Random(block)
    while seen < CASES // 10:
        case = random_case(chance)
        if any(case.fits(node, ()) for node in case.nodes):
            continue
        seen += 1
        found = {node: victims for node in case.nodes if (victims := case.victims(node)) is not None}
        plan = plan_of(model_of(case))
        assert plan is not None, case
        if not found:
            assert isinstance(plan, Refused), (case, plan)
            continue
        helped += 1
        assert isinstance(plan, PreemptionPlan), (case, found)
        victims = {pod.metadata.name for pod in plan.pods}
        expected = found[plan.node]
        assert victims == {one.name for unit in expected[0] for one in unit}, case
        assert plan.violations == expected[1]
        assert case.rank(expected) == min(map(case.rank, found.values())), case
        for victim in plan.victims:
            assert not case.fits(plan.node, victims - {pod.metadata.name for pod in victim.pods}), case
    assert helped >= seen // 3
