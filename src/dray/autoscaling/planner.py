"""Planner: the cheapest set of nodes to add for waiting pods, over all groups at once.

First come nodes required by minimum sizes of groups, which the scheduler fills; then nodes for pods that depend on
other nodes (`linked`). The remaining pods are planned greedily, then with a linear program that also gives a lower
bound, then exactly if there is time. Pods of gangs get nodes together or not at all (`gangs`); pods that can preempt
others need no node (`preempting`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from dray.api.naming import name_of
from dray.api.types.apps import DaemonSet
from dray.api.types.core import Node
from dray.autoscaling.assignment import PlanningTask, assign, tell_linked
from dray.autoscaling.attached import servable
from dray.autoscaling.bound import Relaxed, relax
from dray.autoscaling.cost_model import (
    CostModel,
    NodePurchase,
    UnitCounts,
    Values,
    left_after,
    rooms_after,
    within,
    without,
)
from dray.autoscaling.demand import Demand, demand_of
from dray.autoscaling.exact import cheapest
from dray.autoscaling.expanders import costs_of, measure
from dray.autoscaling.gangs import plan_for_gangs, waiting_gangs
from dray.autoscaling.greedy import first_values, greedy, important_values
from dray.autoscaling.groups import NodeGroups
from dray.autoscaling.linked import EXACT_UNITS, LinkedPlanner, carry_out, minds_others, planned_node, suspects
from dray.autoscaling.packings import Packings
from dray.autoscaling.plans import Check, PlannedNode, ScaleUpPlan
from dray.autoscaling.preempting import settle_with_preemption
from dray.autoscaling.trial import ClusterTemplate, add_node, submit, template_of, withdraw
from dray.sim.cluster import Cluster
from dray.sim.what_if import outcomes

SECONDS = 3.5  # default time limit of the search
# limit of units for a fully exact search; beyond, only the rest of the linear program's solution is exact
_EXACT_UNITS = 120
_CLOSE = 1.005  # a large plan this close to the lower bound is not improved further
_CHECKED_PODS = 1000  # limit of pods for checking the plan with the scheduler


def sizes_of(cluster: Cluster, groups: NodeGroups) -> dict[str, int]:
    """Return the number of nodes of each group in a cluster.

    A group without nodes has 0. A node counts for the first group that it belongs to.
    """
    sizes = {group.name: 0 for group in groups.groups}
    for node in cluster.all(Node):
        group = groups.of(node)
        if group is not None:
            sizes[group.name] += 1
    return sizes


def plan(
    cluster: Cluster,
    groups: NodeGroups,
    *,
    sizes: Mapping[str, int] | None = None,
    closed: Iterable[str] = (),
    daemon_sets: Iterable[DaemonSet] = (),
    seconds: float = SECONDS,
) -> ScaleUpPlan:
    """Plan nodes for the waiting pods of a cluster, which is not changed.

    `sizes` gives the number of nodes of groups, including ordered ones; `closed` names groups that may not grow now.
    """
    begun = time.monotonic()
    counted = {**sizes_of(cluster, groups), **(sizes or {})}
    with cluster.fork() as trial:
        preempted = _settle(trial, groups)
        base = template_of(trial, daemon_sets)
        minimum = _minimum(groups, counted, {*closed})
        for node in minimum:
            add_node(trial, groups, node.name, node.group, base)
        trial.settle()
        question = _Question(groups, counted, Counter(node.group for node in minimum), frozenset(closed), base)
        found = _with_gangs(trial, question, begun + seconds)
        found = replace(found, nodes=(*minimum, *found.nodes))
    check = _checked(cluster, groups, found, base)
    price = sum({group.name: group.price for group in groups.groups}[node.group] for node in found.nodes)
    return replace(found, price=price, check=check, preempted=preempted, seconds=time.monotonic() - begun)


def _settle(trial: Cluster, groups: NodeGroups) -> Mapping[str, str]:
    """Place pods on existing nodes, with preemption if enabled. Returns the preempted pods with their preemptors.

    Both are given as namespace/name; empty without preemption.
    """
    if groups.settings.preemption:
        return settle_with_preemption(trial)
    trial.settle()
    return {}


def _with_gangs(trial: Cluster, question: _Question, deadline: float) -> ScaleUpPlan:
    """Plan for waiting gangs and single pods."""
    gangs = waiting_gangs(trial, question.groups)
    if not gangs:
        return _planned(trial, question, deadline)
    return plan_for_gangs(trial, gangs, lambda loose: _planned(loose, question, deadline), deadline)


def _minimum(groups: NodeGroups, sizes: dict[str, int], closed: set[str]) -> list[PlannedNode]:
    """Return the nodes that groups lack to their minimum, and add them to `sizes`.

    Closed groups are left out. Nodes are named GROUP-new-NUMBER.
    """
    found: list[PlannedNode] = []
    for group in groups.groups:
        lacking = max(0, min(group.min - sizes[group.name], group.room(sizes[group.name])))
        names = [f"{group.name}-new-{number}" for number in range(1, lacking + 1)] if group.name not in closed else []
        found += [PlannedNode(name, group.name, for_minimum=True) for name in names]
        sizes[group.name] += len(names)
    return found


class _Question(msgspec.Struct, frozen=True):
    """Input of a plan: groups with their sizes, and the number of new node names already used by group."""

    groups: NodeGroups
    sizes: Mapping[str, int]
    named: Mapping[str, int]
    closed: frozenset[str]
    base: ClusterTemplate


def _planned(trial: Cluster, question: _Question, deadline: float) -> ScaleUpPlan:
    """Return the plan. Kinds for which a plan for independent nodes fails are treated as linked and planned first."""
    demand = demand_of(trial)
    kind_of = {name: number for number, kind in enumerate(demand.kinds) for name in kind.pods}
    linked = {number for number, kind in enumerate(demand.kinds) if minds_others(kind.first)}
    minds, alone = bool(linked), ScaleUpPlan()
    while True:
        with trial.fork() as attempt:
            found, refused = _attempted(attempt, question, demand, linked, deadline)
        if not refused:
            break
        linked |= {kind_of[name] for name in refused}
        alone = found
    if 0 < len(linked) < len(demand.kinds) and sum(len(kind.units) for kind in demand.kinds) <= EXACT_UNITS:
        with trial.fork() as attempt:
            every, _ = _attempted(attempt, question, demand, {*range(len(demand.kinds))}, deadline)
        found = min(found, every, key=lambda one: _merit(demand, one))
    if not minds and alone.pods <= found.pods:  # independent nodes for no more pods give a valid lower bound
        found = replace(found, lower_bound=max(found.lower_bound, alone.lower_bound))
    return replace(found, blocked=outcomes(trial, demand.blocked))


def _merit(demand: Demand, found: ScaleUpPlan) -> tuple[float, ...]:
    """Return a sort key, smaller is better: pods left out by priority, highest first, then the cost."""
    unhelped = {name for one in found.unhelped for name in one.pods}
    left: Counter[int] = Counter()
    for pod in (pod for kind in demand.kinds for unit in kind.units for pod in unit.pods):
        left[pod.spec.priority or 0] += name_of(pod) in unhelped
    return (*(left[priority] for priority in sorted(left, reverse=True)), found.cost)


def _attempted(
    trial: Cluster, question: _Question, demand: Demand, linked: set[int], deadline: float
) -> tuple[ScaleUpPlan, frozenset[str]]:
    """Return a plan with nodes for linked kinds first, and the pods of other kinds that turned out to be linked.

    The pods are returned by name. `linked` are indexes of the demand's kinds.
    """
    together = ScaleUpPlan()
    if linked:
        together = _planned_together(trial, question, demand, linked, deadline)
        more = together.increases
        sizes = {name: size + more.get(name, 0) for name, size in question.sizes.items()}
        question = replace(question, sizes=sizes, named=Counter(question.named) + Counter(more))
        demand = demand_of(trial)
    task = _task(demand, question)
    alone = _planned_alone(question, task, deadline)
    tried = suspects(trial, task.kinds, task.packings)
    nodes = [node for node in alone.nodes if any(pod.pod in tried for pod in node.pods)]
    carried, refused = carry_out(trial, question.groups, question.base, nodes, demand) if nodes else ((), frozenset())
    if refused or task.is_short:
        refused |= task.sharing
    known = {node.name: node for node in carried}
    alone = replace(alone, nodes=tuple(known.get(node.name, node) for node in alone.nodes))
    return _joined(together, alone, demand) if linked else alone, refused


def _joined(together: ScaleUpPlan, alone: ScaleUpPlan, demand: Demand) -> ScaleUpPlan:
    """Combine two plans, the second of which was made for the pods left by the first."""
    useless = alone.useless if demand.kinds else together.useless
    if together.served or together.unhelped:
        useless = tuple(name for name in useless if name in together.useless)
    cost = together.cost + alone.cost
    proven = together.proven and alone.proven and not (together.nodes and demand.kinds)
    return ScaleUpPlan(
        (*together.nodes, *alone.nodes),
        (*together.served, *alone.served),
        (*together.unhelped, *alone.unhelped),
        useless=useless,
        cost=cost,
        lower_bound=cost if proven else max(together.lower_bound, alone.lower_bound),
        proven=proven,
    )


def _planned_together(
    trial: Cluster, question: _Question, demand: Demand, linked: set[int], deadline: float
) -> ScaleUpPlan:
    """Plan for linked kinds and apply the plan in the trial; other pods then use the remaining room."""
    groups, kinds = question.groups, tuple(demand.kinds[number] for number in sorted(linked))
    for kind in demand.kinds:
        withdraw(trial, *kind.units)
    task = _task(Demand(kinds), question)
    model = CostModel(task.packings, costs_of(groups.groups, groups.settings), kinds, deadline)
    planner = LinkedPlanner(trial, groups, question.base, model, task.rooms, question.named)
    bought = planner.buy(kinds)
    told = tell_linked(task, bought, planner.refuses)
    for number, kind in enumerate(demand.kinds):
        if number not in linked:
            submit(trial, *kind.units)
    trial.settle()
    nodes = tuple(planned_node(trial, node.name, node.group) for node in bought.nodes)
    names = [group.name for group in groups.groups]
    plain = dict(zip(names, measure(groups.groups, groups.settings.expander), strict=True))
    cost = sum(plain[node.group] + node.steps * groups.settings.alternativePrice for node in nodes)
    bound = cost if bought.proven else 0.0
    return replace(told, nodes=nodes, cost=cost, lower_bound=bound, proven=bought.proven)


def _planned_alone(question: _Question, task: PlanningTask, deadline: float) -> ScaleUpPlan:
    """Plan for pods that depend on no other nodes."""
    if not task.kinds:
        return ScaleUpPlan()
    groups = question.groups
    model = CostModel(task.packings, costs_of(groups.groups, groups.settings), task.kinds, deadline)
    purchases, values, proven = _bought(model, task)
    cost = _cost(model, purchases, groups)
    bound = cost if proven else min(cost, _bound(model, task, purchases, values))
    given = assign(task, purchases, groups, question.named)
    return replace(given, cost=cost, lower_bound=bound, proven=bound >= cost)


def _cost(model: CostModel, purchases: Sequence[NodePurchase], groups: NodeGroups) -> float:
    """Return the cost of purchases by the expander's measure, without tie-breakers."""
    plain = measure(groups.groups, groups.settings.expander)
    steps = sum(model.steps(one.group, one.packing) * one.times for one in purchases)
    return sum(plain[one.group] * one.times for one in purchases) + steps * groups.settings.alternativePrice


def _bound(model: CostModel, task: PlanningTask, purchases: Sequence[NodePurchase], values: Values) -> float:
    """Return a lower bound on the cost of nodes for the units that the purchases serve."""
    served = _served(task.wanted, left_after(task.wanted, purchases))
    slack = model.costs.slack(sum(served), task.most_steps)
    return max(0.0, values.bound(served, task.rooms) - slack)


def _task(demand: Demand, question: _Question) -> PlanningTask:
    """Return the planning input for a demand: packings, rooms of groups, and servable units."""
    groups, closed = question.groups.groups, question.closed
    thorough = sum(len(kind.units) for kind in demand.kinds) <= _EXACT_UNITS
    packings = [Packings(group, demand.kinds, question.base, thorough=thorough) for group in groups]
    rooms = [0 if group.name in closed else group.room(question.sizes[group.name]) for group in groups]
    reachable = servable(demand.kinds, packings, question.base)
    wanted = tuple(count if any(own.most[kind] for own in packings) else 0 for kind, count in enumerate(reachable))
    return PlanningTask(demand.kinds, packings, tuple(rooms), tuple(reachable), wanted, closed)


def _bought(model: CostModel, task: PlanningTask) -> tuple[Sequence[NodePurchase], Values, bool]:
    """Return the best purchases, the values that bound their cost, and whether they are proved to be cheapest."""
    wanted, rooms = task.wanted, task.rooms
    best = greedy(model, wanted, rooms, first_values(model))
    if any(left_after(wanted, best)) and any(model.ranks):
        best = greedy(model, wanted, rooms, important_values(model))
    left = left_after(wanted, best)
    kept = _served(wanted, left)
    relaxed = relax(model, kept, wanted, rooms, best)
    if relaxed.amounts:
        best = _better(model, best, _rounded(model, kept, rooms, relaxed), kept)
    if sum(wanted) > _EXACT_UNITS:
        return best, relaxed.values, False
    unplaced = sum(cost * out for cost, out in zip(model.unplaced(wanted), left, strict=True))
    found = cheapest(model, wanted, rooms, relaxed.values, best, model.total(best) + unplaced)
    return found.purchases, relaxed.values, found.proven


def _served(wanted: UnitCounts, left: UnitCounts) -> UnitCounts:
    return tuple(every - out for every, out in zip(wanted, left, strict=True))


def _better(
    model: CostModel, one: Sequence[NodePurchase], other: Sequence[NodePurchase], kept: UnitCounts
) -> list[NodePurchase]:
    """Return the cheaper purchases; `other` counts only if it serves all units.

    `kept` has the number of units of each kind that must be served.
    """
    serves_all = not any(left_after(kept, other))
    return [*(other if serves_all and model.total(other) < model.total(one) else one)]


def _rounded(model: CostModel, kept: UnitCounts, rooms: UnitCounts, relaxed: Relaxed) -> list[NodePurchase]:
    """Round the linear program's solution to whole nodes. The rest is planned exactly if feasible, or else greedily."""
    bought: list[NodePurchase] = []
    left = kept
    for one, much in relaxed.amounts:
        whole = NodePurchase(one.group, one.packing, int(much + 1e-6))
        if whole.times and all(left[kind] >= count * whole.times for kind, count in one.packing):
            bought.append(whole)
            left = without(left, one.packing, whole.times)
    spare = rooms_after(rooms, bought)
    for one, much in sorted(relaxed.amounts, key=lambda pair: -(pair[1] % 1)):
        part = within(one.packing, left)
        if much % 1 > 0.5 and part == one.packing and spare[one.group]:
            bought.append(NodePurchase(one.group, part))
            left, spare = without(left, part), rooms_after(rooms, bought)
    rest = greedy(model, left, spare, relaxed.worth)
    is_close = model.total([*bought, *rest]) <= relaxed.bound * _CLOSE
    if sum(left) <= _EXACT_UNITS and not is_close and not any(left_after(left, rest)):
        rest = [*cheapest(model, left, spare, relaxed.values, rest, model.total(rest)).purchases]
    return [*bought, *rest]


def _checked(cluster: Cluster, groups: NodeGroups, found: ScaleUpPlan, base: ClusterTemplate) -> Check | None:
    """Let the scheduler place the pods with the new nodes on its own.

    Returns the result, or None if there are too many pods.
    """
    pods = found.pods
    if not pods or len(pods) > _CHECKED_PODS:
        return None
    with cluster.fork() as trial:
        _settle(trial, groups)
        for node in found.nodes:
            add_node(trial, groups, node.name, node.group, base)
        trial.settle()
        waiting = tuple(name for name in trial.waiting() if name in pods)
    return Check(len(pods) - len(waiting), waiting)
