"""Forecast of preemption: victims whose eviction would make room for a waiting pod or gang, and whether fewer would
do.

The victims are found by the scheduler's own code. The scheduler restores victims one by one, so each remaining victim
is necessary, but a search through all sets of victims may find a less disruptive set. Left out: terminating pods, and
existing nominations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dray.api.naming import name_of
from dray.api.types.core import Pod
from dray.core.attempt import Attempt, PlacementDecision, PreemptionPlan, Promise, Refused, Unfinished
from dray.core.gang_attempt import GangAttempt, GangRefused, GroupPreemptionPlan
from dray.core.joint_check import JointCheck, JointChecks, WorkPart
from dray.core.model import ClusterModel
from dray.core.preemption import disturbance
from dray.core.queue import Waiting
from dray.core.victims import Victim, priority_of, violations
from dray.inspect.explanation import PreemptionForecast
from dray.inspect.placement import model_of
from dray.inspect.snapshot import DISRUPTION, Snapshot

MOST_SETS = 4_000  # limit of victim sets to compare; beyond, nothing is said about better sets
MOST_CHECKS = 400  # limit of less disruptive sets to check


class _VictimSet(NamedTuple):
    """Victims on one node, or in one domain for a gang, with a measure of their disruption."""

    disturbs: tuple[float, ...]
    nodes: int
    victims: tuple[Victim, ...]


def forecast(snapshot: Snapshot, pod: Pod) -> PreemptionForecast | None:
    """Forecast the victims which a waiting pod or gang would preempt; None if preemption is impossible or useless."""
    priority = priority_of(pod)
    is_any_less = any(priority_of(one) < priority for one in snapshot.all(Pod) if one.spec.nodeName)
    if not is_any_less or pod.spec.preemptionPolicy == "Never" or snapshot.unreadable & {*DISRUPTION[:1]}:
        return None
    model = model_of(snapshot, snapshot.group_of(pod), more=DISRUPTION[:1])
    model.preempts = True
    waiting = model.queue.get(pod.metadata.uid)
    if waiting is None or not model.queue.take(waiting):
        return None
    gang = model.gangs.begin(waiting)
    return _of_gang(model, gang) if gang is not None else _of_pod(model, waiting)


def _of_pod(model: ClusterModel, waiting: Waiting) -> PreemptionForecast | None:
    """Forecast the preemption for a pod; None if it would preempt none."""
    decision: PlacementDecision = model.decide(model.begin(waiting))
    while isinstance(decision, Unfinished):
        decision = model.decide(model.begin(waiting))
    plan = decision.plan if isinstance(decision, Refused) else None
    if plan is None or not plan.victims:
        return None
    infos = [info for info in model.state.table if info.node is not None]
    groups = [(1 << info.position, model.preemption.victims.on([info], priority_of(waiting.pod))) for info in infos]

    def fits(chosen: _VictimSet) -> bool:
        with model.state.trial() as trial:
            for pod in _pods(chosen.victims):
                trial.take_off(pod)
            attempt = model.trial_attempt(waiting.pod)
            attempt.among = chosen.nodes
            return isinstance(_decided(model, attempt), Promise)

    return _compared(model, plan, plan.node, groups, fits)


def _decided(model: ClusterModel, attempt: Attempt) -> PlacementDecision:
    """Decide about an attempt, continuing until the decision is finished."""
    decision = model.state.placement.decide(attempt)
    while isinstance(decision, Unfinished):
        decision = model.state.placement.decide(attempt)
    return decision


def _of_gang(model: ClusterModel, gang: GangAttempt) -> PreemptionForecast | None:
    """Forecast the preemption for a gang; None if it would preempt none."""
    decision = model.gangs.decide(gang)
    while isinstance(decision, Unfinished):
        decision = model.gangs.decide(gang)
    plan = decision.plan if isinstance(decision, GangRefused) else None
    if plan is None or not plan.victims:
        return None
    priority = priority_of(gang.leader.pod)
    named = model.state.table.named
    groups = [(domain.nodes, model.preemption.victims.on(named(domain.nodes), priority)) for domain in gang.domains]

    def fits(chosen: _VictimSet) -> bool:
        checks = JointChecks(model.state, model.trial_attempt, gang)
        with model.state.trial() as trial:
            for pod in _pods(chosen.victims):
                trial.take_off(pod)
            return checks.fits(JointCheck([*reversed(gang.members)], {}), chosen.nodes, trial, WorkPart(None))

    return _compared(model, plan, "", groups, fits)


def _compared(
    model: ClusterModel,
    plan: PreemptionPlan | GroupPreemptionPlan,
    node: str,
    groups: Sequence[tuple[int, list[Victim]]],
    fits: Callable[[_VictimSet], bool],
) -> PreemptionForecast:
    """Return the forecast for a plan, with the least disruptive other set of victims if that is better."""
    own = tuple(map(name_of, plan.pods))
    violating = sum(
        violations(plan.victims, model.preemption.budgets).values()
    )  # the plan's own count includes restored victims
    told = PreemptionForecast(own, node, violating)
    most = disturbance(_Supposed(plan.victims, violating))[:-1]
    sets = [*itertools.islice(_sets(model, groups), MOST_SETS + 1)]
    lesser = sorted((one for one in sets if one.disturbs < most), key=lambda one: one.disturbs)
    if len(sets) > MOST_SETS or len(lesser) > MOST_CHECKS:
        return told
    better = next((one for one in lesser if fits(one)), None)
    if better is None:
        return PreemptionForecast(own, node, violating, is_least=True)
    where = [info.name for info in model.state.table.named(better.nodes)]
    there = where[0] if node and len(where) == 1 else ""
    return PreemptionForecast(own, node, violating, tuple(map(name_of, _pods(better.victims))), there)


def _sets(model: ClusterModel, groups: Iterable[tuple[int, list[Victim]]]) -> Iterator[_VictimSet]:
    """Yield all sets of victims within each group of nodes.

    Each group is the nodes as a bit set, and the victims on them. Every set has at least one victim.
    """
    for nodes, victims in groups:
        for size in range(1, len(victims) + 1):
            for chosen in itertools.combinations(victims, size):
                violating = violations(chosen, model.preemption.budgets)
                yield _VictimSet(disturbance(_Supposed(chosen, sum(violating.values())))[:-1], nodes, chosen)


class _Supposed(NamedTuple):
    """Victims and number of violations of an assumed plan, for `disturbance`."""

    victims: tuple[Victim, ...]
    violations: int


def _pods(victims: Iterable[Victim]) -> list[Pod]:
    return [pod for victim in victims for pod in victim.pods]
