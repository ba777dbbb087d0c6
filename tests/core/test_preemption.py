"""Preemption without a scheduler: victims as in Kubernetes' rule, with exact checks of what fits."""

from __future__ import annotations

import random

import msgspec
import pytest

from dray.api.gates import FeatureGates
from dray.api.types.core import Node, Pod
from dray.core import group_preemption, joint_check
from dray.core.attempt import PreemptionPlan, Refused, Unfinished
from dray.core.configuration import Configuration
from dray.core.gang_attempt import GangAttempt, GangDecision, GangRefused
from dray.core.model import ClusterModel
from dray.sim import Cluster
from tests import objects
from tests.core.preemption_cases import PREEMPTOR, Case, random_case, random_gang_case

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


def decided(model: ClusterModel, gang: GangAttempt) -> GangDecision:
    while isinstance(decision := model.gangs.decide(gang), Unfinished):
        pass
    return decision


def test_a_search_in_small_parts_comes_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that changes between the parts makes a difference only where it matters."""
    monkeypatch.setattr(group_preemption, "UNITS_AT_ONCE", joint_check.DECISION + 1)
    chance, parts = random.Random(1), 0
    for number in range(30):
        case = random_gang_case(chance)
        whole, cut = model_of(case), model_of(case)
        cut.state.index.defers = True
        names = []
        for model in (whole, cut):
            waiting = model.next()
            gang = model.gangs.begin(waiting) if waiting is not None else None
            assert gang is not None
            while isinstance(decision := model.gangs.decide(gang), Unfinished):
                parts += 1
                if number % 2:
                    model.put(
                        msgspec.convert(objects.node(f"far-{parts}", allocatable={"cpu": "0", "pods": "0"}), Node)
                    )
            plan = decision.plan if isinstance(decision, GangRefused) else None
            names.append({pod.metadata.name for pod in plan.pods} if plan is not None else None)
        assert names[0] == names[1], case
    assert parts > 200


@pytest.mark.parametrize("block", range(10))
def test_the_victims_of_a_gang_are_those_of_the_rule_and_each_is_necessary(block: int) -> None:
    seen = helped = 0
    chance = random.Random(block)
    while seen < CASES // 10:
        case = random_gang_case(chance)
        if case.gang_fits(()):
            continue
        seen += 1
        expected = case.gang_victims()
        model = model_of(case)
        waiting = model.next()
        gang = model.gangs.begin(waiting) if waiting is not None else None
        assert gang is not None
        refused = decided(model, gang)
        assert isinstance(refused, GangRefused)
        if expected is None:
            assert refused.plan is None, case
            continue
        helped += 1
        plan = refused.plan
        assert plan is not None, case
        assert plan.is_proven
        victims = {pod.metadata.name for pod in plan.pods}
        assert victims == {one.name for unit in expected[0] for one in unit}, case
        assert plan.violations == expected[1]
        for victim in plan.victims:
            assert not case.gang_fits(victims - {pod.metadata.name for pod in victim.pods}), case
        made = Cluster(gates=GATES, preempts=True)
        made.add(*case.objects())
        made.settle()
        assert {name.partition("/")[2] for name in made.preempted} == victims
        assert (
            sum(bool(pod.spec.nodeName) for pod in made.all(Pod) if pod.metadata.name.startswith("gang"))
            >= case.min_count
        )
    assert helped >= seen // 3
