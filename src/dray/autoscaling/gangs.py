"""Nodes for gangs: for at least as many pods as a gang needs at once, or for none of them.

A plan is made as if the pods of a gang were placed one by one, the needed pods first. A gang that gets too few nodes
is left out completely, because nodes for a part of it would help no pod. If a gang can use several topology domains,
or if gangs compete, several plans are compared: all combinations for a few gangs, otherwise gang after gang. Left
out: the plan for single pods (`planner`).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from dray.api.naming import name_of
from dray.api.reasons.autoscaling import NoHelp
from dray.api.types.core import Node, Pod
from dray.api.types.scheduling import PodGroup
from dray.autoscaling.demand import ONE_NODE, may_be_placed, units_of
from dray.autoscaling.groups import NodeGroup, NodeGroups
from dray.autoscaling.plans import ScaleUpPlan, Unhelped
from dray.autoscaling.trial import one_by_one, submit, withdraw
from dray.core.gangs import min_count
from dray.sim.cluster import Cluster
from dray.sim.copies import HOSTNAME
from dray.sim.what_if import is_placed

COMBINATIONS = 64  # limit of combinations up to which all are tried
_FIRST = 2**31 - 1  # priority in trials of the pods that a gang needs
Planned = Callable[[Cluster], ScaleUpPlan]


class Way(NamedTuple):
    """Constraint for a gang's nodes: nodes with a label value, or one single node.

    `pods` is how many pods are planned.
    """

    label: tuple[str, str] | None = None
    is_one_node: bool = False
    pods: int = 0


class WaitingGang(NamedTuple):
    """A waiting gang. `needed` of its pods must get nodes, in one of the `ways`."""

    group: PodGroup
    pods: tuple[Pod, ...]
    needed: int
    ways: tuple[Way, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(map(name_of, self.pods))


Choice = tuple[Way | None, ...]  # the way chosen for each gang, or None if the gang is left out


class _Outcome(NamedTuple):
    """Plan for one choice, the pods that then have nodes, and their number for each gang."""

    plan: ScaleUpPlan
    served: frozenset[str]
    counts: tuple[int, ...]


def waiting_gangs(cluster: Cluster, groups: NodeGroups) -> list[WaitingGang]:
    """Return the complete but unplaced gangs of a settled cluster, highest priority first.

    Pods with a problem in their claims, or that a new node cannot help, are left out; a gang without other waiting
    pods is not returned.
    """
    state, waiting = cluster.model.state, cluster.waiting()
    found = []
    for group in cluster.all(PodGroup):
        members = state.gangs.members(group)
        pods = [pod for pod in members if not pod.spec.nodeName and name_of(pod) in waiting]
        pods = [pod for pod in pods if cluster.problem_of(pod) is None and may_be_placed(waiting[name_of(pod)])]
        if not pods or state.gangs.joint_group(pods[0]) is None:
            continue
        bound = [pod for pod in members if pod.spec.nodeName]
        needed = max(0, min_count(group) - len(bound))
        ways = tuple(_ways(cluster, group, groups, pods, bound, needed))
        found.append(WaitingGang(group, tuple(pods), needed, ways))
    return sorted(found, key=lambda gang: -(gang.pods[0].spec.priority or 0))


def plan_for_gangs(cluster: Cluster, gangs: Sequence[WaitingGang], planned: Planned, deadline: float) -> ScaleUpPlan:
    """Return the best plan in which each gang gets enough nodes or none. `planned` plans for single pods."""
    everyone = {name_of(pod): pod.spec.priority or 0 for pod in cluster.all(Pod) if name_of(pod) in cluster.waiting()}
    search = _ChoiceSearch(cluster, gangs, planned, everyone)
    count = math.prod(len(gang.ways) + 1 for gang in gangs)
    best = search.compare_all(deadline) if count <= COMBINATIONS else search.leave_out(deadline)
    return search.told(best)


class _ChoiceSearch:
    """Compares choices of ways for gangs. `everyone` maps all waiting pods to their priorities."""

    def __init__(
        self, cluster: Cluster, gangs: Sequence[WaitingGang], planned: Planned, everyone: dict[str, int]
    ) -> None:
        self._cluster, self._gangs, self._planned, self._everyone = cluster, gangs, planned, everyone
        self._known: dict[Choice, _Outcome] = {}

    def compare_all(self, deadline: float) -> Choice:
        """Try all choices until the deadline. Returns the best valid one; leaving out all gangs is always valid."""
        options = [(*gang.ways, None) for gang in self._gangs]
        has_ways = any(len(gang.ways) > 1 for gang in self._gangs)
        last: Choice = tuple(None for _ in self._gangs)
        valid: list[Choice] = []
        for choice in itertools.product(*options):
            outcome = self._outcome(choice)
            if self._is_whole(choice, outcome):
                valid.append(choice)
                if not has_ways and not _is_crowded(outcome.plan):
                    break
            if valid and time.monotonic() > deadline:
                break
        if last not in self._known and time.monotonic() > deadline:
            valid.append(last)
        return min(valid, key=self._merit)

    def leave_out(self, deadline: float) -> Choice:
        """Find a good choice for many gangs: gangs with too few nodes try their next way, and finally are left out."""
        at = [0] * len(self._gangs)
        while True:
            choice = tuple((*gang.ways, None)[way] for gang, way in zip(self._gangs, at, strict=True))
            outcome = self._outcome(choice)
            short = [number for number in range(len(at)) if self._is_short(number, choice, outcome)]
            if not short:
                return choice
            is_late = time.monotonic() > deadline
            for number in short if is_late else short[-1:]:  # the least important gang first
                at[number] = len(self._gangs[number].ways) if is_late else at[number] + 1

    def told(self, choice: Choice) -> ScaleUpPlan:
        """Return the plan of a choice, with explanations for gangs that were left out."""
        outcome = self._known[choice]
        left = [gang for gang, way in zip(self._gangs, choice, strict=True) if way is None]
        refused = tuple(self._refused(number) for number, way in enumerate(choice) if way is None)
        names = frozenset[str]().union(*(gang.names for gang in left))
        others = tuple(
            replace(one, pods=kept)
            for one in outcome.plan.unhelped
            if (kept := tuple(name for name in one.pods if name not in names))
        )
        equal = [
            one for tried, one in self._known.items() if one.served == outcome.served and self._is_whole(tried, one)
        ]
        bound = min(one.plan.lower_bound for one in equal)
        return replace(
            outcome.plan,
            unhelped=(*others, *refused),
            lower_bound=bound,
            proven=all(one.plan.proven for one in equal),
        )

    # -- single choices

    def _outcome(self, choice: Choice) -> _Outcome:
        """Return the outcome of a choice, cached."""
        if choice not in self._known:
            self._known[choice] = self._tried(choice)
        return self._known[choice]

    def _tried(self, choice: Choice) -> _Outcome:
        """Plan for a choice in a fork. Returns the outcome."""
        with self._cluster.fork() as trial:
            for gang, way in zip(self._gangs, choice, strict=True):
                _bring(trial, gang, way)
            trial.settle()
            plan = self._planned(trial)
            placed = {name for name in self._everyone if _has_node(trial, name)}
        served = frozenset(placed) | (plan.pods & self._everyone.keys())
        return _Outcome(plan, served, tuple(len(served & gang.names) for gang in self._gangs))

    def _is_whole(self, choice: Choice, outcome: _Outcome) -> bool:
        """Whether every chosen gang gets enough nodes."""
        return not any(self._is_short(number, choice, outcome) for number in range(len(choice)))

    def _is_short(self, number: int, choice: Choice, outcome: _Outcome) -> bool:
        """Whether a chosen gang gets too few nodes."""
        return choice[number] is not None and outcome.counts[number] < self._gangs[number].needed

    def _merit(self, choice: Choice) -> tuple[float, ...]:
        """Return a sort key, smaller is better: pods left out by priority, highest first, then the cost."""
        outcome = self._outcome(choice)
        left = dict.fromkeys(sorted({*self._everyone.values()}, reverse=True), 0)
        for name, priority in self._everyone.items():
            left[priority] += name not in outcome.served
        return (*left.values(), outcome.plan.cost)

    def _refused(self, number: int) -> Unhelped:
        """Return why a gang was left out: how many of its pods could get nodes in the best attempt.

        `number` is the index of the gang. The count is 0 if no attempt included the gang.
        """
        gang = self._gangs[number]
        tried = [one for choice, one in self._known.items() if choice[number] is not None]
        names = tuple(map(name_of, gang.pods))
        label = f"{gang.group.metadata.namespace}/{gang.group.metadata.name}"
        if not tried:
            return Unhelped(names, (), label, gang.needed, 0)
        closest = max(tried, key=lambda one: one.counts[number])
        refusals = next((one.refusals for one in closest.plan.unhelped if {*one.pods} & gang.names), ())
        return Unhelped(names, refusals, label, gang.needed, closest.counts[number])


def _is_crowded(plan: ScaleUpPlan) -> bool:
    """Whether pods are left out because other pods take suitable nodes or devices."""
    return any(why.code in (NoHelp.NO_ROOM, NoHelp.NETWORK) for one in plan.unhelped for why in one.refusals)


def _has_node(cluster: Cluster, name: str) -> bool:
    namespace, _, bare = name.partition("/")
    pod = cluster.get(Pod, bare, namespace)
    return pod is not None and is_placed(cluster, pod)


def _bring(trial: Cluster, gang: WaitingGang, way: Way | None) -> None:
    """Replace a gang's pods by single pods restricted to one of its ways; without a way, just remove them."""
    units = units_of(trial, gang.pods)  # including the claims of the pods
    withdraw(trial, *units)
    if way is None:
        return
    trial.add(one_by_one(gang.group))
    wanted = {pod.metadata.uid for pod in gang.pods[: way.pods]}
    first = {pod.metadata.uid for pod in gang.pods[: gang.needed]}
    for unit in units:
        pods = tuple(_in_way(pod, gang, way, is_first=pod.metadata.uid in first) for pod in unit.pods)
        kept = tuple(pod for pod in pods if pod.metadata.uid in wanted)
        submit(trial, replace(unit, pods=kept))


def _in_way(pod: Pod, gang: WaitingGang, way: Way, *, is_first: bool) -> Pod:
    """Return the pod restricted to a way. Needed pods get the highest priority."""
    spec, meta = pod.spec, pod.metadata
    if way.label is not None:
        spec = replace(spec, nodeSelector={**spec.nodeSelector, way.label[0]: way.label[1]})
    if way.is_one_node:
        meta = replace(meta, annotations={**meta.annotations, ONE_NODE: gang.group.metadata.name})
    return replace(pod, metadata=meta, spec=replace(spec, priority=_FIRST if is_first else spec.priority))


def _ways(
    cluster: Cluster, group: PodGroup, groups: NodeGroups, pods: Sequence[Pod], bound: Sequence[Pod], needed: int
) -> Iterator[Way]:
    """Yield the ways to place a gang under its topology constraint.

    `bound` are the gang's pods with a node; they decide the domain if there are any. `needed` is the least number of
    further pods.
    """
    keys = cluster.model.state.gangs.topology_keys(group)
    if not keys:
        yield Way(pods=len(pods))
        return
    nodes = {node.metadata.name: node for node in cluster.all(Node)}
    if keys[0] == HOSTNAME and not bound:
        for count in dict.fromkeys((len(pods), max(1, needed))):
            yield Way(is_one_node=True, pods=count)
        return
    there: Iterable[Node] = (nodes[pod.spec.nodeName] for pod in bound if pod.spec.nodeName in nodes)
    if not bound:
        there = (*nodes.values(), *(_node_of(one) for one in groups.groups))
    values = {node.metadata.labels[keys[0]] for node in there if keys[0] in node.metadata.labels}
    for value in sorted(values):
        yield Way((keys[0], value), pods=len(pods))


def _node_of(group: NodeGroup) -> Node:
    """Return a new node of a group.

    It is named GROUP-new.
    """
    return next(one for one in group.template.objects(f"{group.name}-new") if isinstance(one, Node))
