"""Plan and removable nodes as text lines for people and as a JSON tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dray.api.reasons import wording
from dray.autoscaling.groups import AutoscalingSettings, Expander, NodeGroups
from dray.autoscaling.plans import GroupRefusal, PlannedNode, ScaleUpPlan, Served, Unhelped
from dray.autoscaling.scale_down import ScaleDown
from dray.sim.what_if import DeviceUse

NODES = 50  # limit of nodes listed one by one
PODS = 5  # limit of pod names per list


def tree(plan: ScaleUpPlan, down: ScaleDown, groups: NodeGroups) -> dict[str, Any]:
    """Convert plan and removals to JSON data."""
    return {
        "increases": plan.increases,
        "price": round(plan.price, 6),
        "expander": groups.settings.expander.value,
        "cost": round(plan.cost, 6),
        "lowerBound": round(plan.lower_bound, 6),
        "proven": plan.proven,
        "seconds": round(plan.seconds, 3),
        "nodes": [_node_tree(node) for node in plan.nodes],
        "served": [_served_tree(one) for one in plan.served],
        "unhelped": [_unhelped_tree(one) for one in plan.unhelped],
        "blocked": [{"pod": one.pod, "message": one.words} for one in plan.blocked],
        "uselessGroups": [*plan.useless],
        "preempted": [{"pod": pod, "by": by} for pod, by in sorted(plan.preempted.items())],
        "scheduler": None if plan.check is None else msgspec.to_builtins(plan.check),
        "removals": [msgspec.to_builtins(one) for one in down.removals],
        "kept": [msgspec.to_builtins(one) for one in down.kept],
    }


def lines(plan: ScaleUpPlan, down: ScaleDown, groups: NodeGroups) -> list[str]:
    """Convert plan and removals to text lines."""
    found = [*_summary(plan, groups)]
    prices = {group.name: group.price for group in groups.groups}
    for node in plan.nodes[:NODES]:
        found += _node_lines(node, prices[node.group])
    if len(plan.nodes) > NODES:
        found.append(f"and {len(plan.nodes) - NODES} more nodes; -o json has them all")
    for kind in plan.served:
        found.append(f"{_alike(kind.pods)}: nodes of {_listed(kind.able)} would fit")
        found += [f"  {_refusal(why)}" for why in kind.refusals]
    for one in plan.unhelped:
        found += [_without_node(one), *(f"  {_refusal(why)}" for why in one.refusals)]
    found += [f"group {name} can never help: none of the waiting pods fits on a node of it" for name in plan.useless]
    found += [
        f"{_some(pods, 'wait')} for something else than a node: {words}" for words, pods in _blocked(plan).items()
    ]
    found += [f"pod {pod} is preempted by {by}" for pod, by in sorted(plan.preempted.items())[:NODES]]
    found += _check_lines(plan)
    return [*found, *_down_lines(down)]


def _without_node(one: Unhelped) -> str:
    text = f"{_some(one.pods, 'stay')} without a node"
    if not one.gang:
        return text
    return f"{text}: podgroup {one.gang} needs nodes for {_count(one.needed, 'pod')} at once, and {one.found} could get one"


def _blocked(plan: ScaleUpPlan) -> dict[str, tuple[str, ...]]:
    """Return the pods that wait for something other than a node, by reason.

    Pods are given by name.
    """
    found: dict[str, tuple[str, ...]] = {}
    for one in plan.blocked:
        found[one.words] = (*found.get(one.words, ()), one.pod)
    return found


def _summary(plan: ScaleUpPlan, groups: NodeGroups) -> Iterator[str]:
    """Yield lines with the number of nodes, the price, and how good the plan is."""
    pods = sum(len(node.pods) for node in plan.nodes)
    if not plan.nodes:
        yield "no node is to be added"
        return
    yield f"add {_count(len(plan.nodes), 'node')} for {_count(pods, 'pod')}: {_money(plan.price)} an hour"
    prices = {group.name: group.price for group in groups.groups}
    for group, count in plan.increases.items():
        yield f"  group {group}: {_count(count, 'node')} at {_money(prices[group])}"
    if not pods:
        return
    of = _measure(groups.settings)
    if plan.proven:
        yield f"this is the cheapest set of nodes{of} for these pods: lower bound {_money(plan.lower_bound)}"
    else:
        bound = "no lower bound is known"  # as for pods that depend on other nodes
        if plan.lower_bound:
            bound = f"lower bound {_money(plan.lower_bound)}, gap {100 * plan.gap:.2f} %"
        yield f"not proven to be the cheapest set of nodes{of}: cost {_money(plan.cost)}, {bound}"


def _measure(settings: AutoscalingSettings) -> str:
    """Return text about the cost measure; empty if it is just the price."""
    by = "" if settings.expander is Expander.PRICE else f" by {settings.expander.value}"
    steps = settings.alternativePrice
    return by + (f", a step down alternatives counted as {_money(steps)}," if steps else "")


def _node_lines(node: PlannedNode, price: float) -> Iterator[str]:
    reason = ", for the minimum of its group" if node.for_minimum else ""
    steps = f", {_count(node.steps, 'step')} down lists of alternatives" if node.steps else ""
    yield f"node {node.name} at {_money(price)}{reason}{steps}"
    for pod in node.pods:
        yield f"  pod {pod.pod}"
        for use in pod.devices:
            yield f"    claim {use.claim}, request {use.request}: {use.device}"


def _refusal(why: GroupRefusal) -> str:
    said = wording.claim_problem(why.problem) if why.problem is not None else ""
    if why.verdict is not None:
        said = wording.verdict(why.verdict)
    return f"group {why.group}: {wording.no_help(why.code, said)}"


def _check_lines(plan: ScaleUpPlan) -> list[str]:
    check = plan.check
    if check is None or not check.waiting:
        return []
    total = check.placed + len(check.waiting)
    names = _listed(check.waiting)
    return [
        f"the scheduler, in its own order, places {check.placed} of {total} pods on these nodes; then wait: {names}"
    ]


def _down_lines(down: ScaleDown) -> Iterator[str]:
    for one in down.removals:
        places = ", ".join(f"{moved.pod} to {moved.node}" for moved in one.moved)
        yield f"node {one.node} can be removed: " + (f"its pods move: {places}" if places else "it has no pods")
    for kept in down.kept:
        yield f"node {kept.node} stays: {wording.stays(kept.code, kept.subject)}"
    if not down.complete:
        yield "there was no time to find out about the other nodes"


def _node_tree(node: PlannedNode) -> dict[str, Any]:
    pods = [{"pod": pod.pod, "devices": [_device_tree(use) for use in pod.devices]} for pod in node.pods]
    return {"name": node.name, "group": node.group, "steps": node.steps, "minimum": node.for_minimum, "pods": pods}


def _device_tree(use: DeviceUse) -> dict[str, str]:
    return {"claim": use.claim, "request": use.request, "device": str(use.device)}


def _unhelped_tree(one: Unhelped) -> dict[str, Any]:
    found: dict[str, Any] = {"pods": [*one.pods], "groups": _refusal_trees(one.refusals)}
    return found | ({"gang": one.gang, "needed": one.needed, "found": one.found} if one.gang else {})


def _served_tree(one: Served) -> dict[str, Any]:
    return {"pods": [*one.pods], "able": [*one.able], "groups": _refusal_trees(one.refusals)}


def _refusal_trees(refusals: Iterable[GroupRefusal]) -> list[dict[str, str]]:
    return [{"group": why.group, "code": why.code.value, "message": _refusal(why)} for why in refusals]


def _alike(pods: tuple[str, ...]) -> str:
    return f"pod {pods[0]}" + (f" and {len(pods) - 1} like it" if len(pods) > 1 else "")


def _some(pods: tuple[str, ...], verb: str) -> str:
    return f"pod {pods[0]} {verb}s" if len(pods) == 1 else f"{len(pods)} pods ({_listed(pods)}) {verb}"


def _listed(names: Iterable[str]) -> str:
    every = [*names]
    return ", ".join(every[:PODS]) + (", …" if len(every) > PODS else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _money(amount: float) -> str:
    return f"{amount:.2f}"
