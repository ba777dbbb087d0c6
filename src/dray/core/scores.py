"""Scores that choose the best of the fitting nodes: each rule gives 0 to 100 per node, and the weighted values are
added.

A rule that does not concern a pod returns None. Rules and weights are those of Kubernetes' default profile, with
default spreading by the common owner of pods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from dray.api.selectors import term_matches, untolerated
from dray.api.types.core import Pod
from dray.verdicts.demand import Candidate
from dray.verdicts.neighbours import Neighbours, label
from dray.verdicts.nodes import NodeInfo, Sample

MAX = 100

Scores = list[float]


class Score(Protocol):
    """Rule that compares nodes."""

    name: str

    def scores(self, candidate: Candidate, nodes: Sample) -> Scores | None:
        """Return 0 to 100 for each node, in their order, or None if the rule does not concern the pod. More is
        better.
        """


class LeastAllocated:
    """Prefer nodes with the most free CPU and memory."""

    name = "NodeResourcesFit"

    def scores(self, candidate: Candidate, nodes: Sample) -> Scores | None:
        demand = candidate.demand
        return nodes.table.load.left(demand.scored_cpu, demand.scored_memory, nodes.positions)


class PreferredNodes:
    """Prefer nodes that match the pod's preferred node affinity."""

    name = "NodeAffinity"

    def scores(self, candidate: Candidate, nodes: Sample) -> Scores | None:
        affinity = candidate.spec.affinity
        terms = (
            affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution
            if affinity and affinity.nodeAffinity
            else ()
        )
        if not terms:
            return None
        return _scaled(
            [
                float(
                    sum(t.weight for t in terms if term_matches(t.preference, node.metadata.labels, node.metadata.name))
                )
                for node in (info.node for info in nodes.infos)
                if node is not None
            ]
        )


class FewTaints:
    """Prefer nodes without PreferNoSchedule taints that the pod does not tolerate."""

    name = "TaintToleration"

    def scores(self, candidate: Candidate, nodes: Sample) -> Scores | None:
        if not nodes.table.tainted:
            return None
        return _scaled([float(-self._untolerated(candidate, info)) for info in nodes.infos])

    def _untolerated(self, candidate: Candidate, info: NodeInfo) -> int:
        taints = info.node.spec.taints if info.node else ()
        return sum(1 for _ in untolerated(taints, candidate.spec.tolerations, ("PreferNoSchedule",)))


class Spreading:
    """Spread the pods of one workload: prefer nodes with few pods of the same owner, or follow soft constraints."""

    name = "PodTopologySpread"

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours

    def scores(self, candidate: Candidate, nodes: Sample) -> Scores | None:
        soft = [c for c in candidate.spec.topologySpreadConstraints if c.whenUnsatisfiable == "ScheduleAnyway"]
        owner = owner_of(candidate.pod)
        if not soft and not owner:
            return None
        positions = sum(1 << position for position in nodes.positions)
        crowd = [0.0] * len(nodes)
        for constraint in soft:
            counts = self._neighbours.spread_counts(candidate, constraint, positions)
            for i, info in enumerate(nodes.infos):
                crowd[i] -= counts[label(info, constraint.topologyKey) or ""]
        if owner and not soft:
            for i, info in enumerate(nodes.infos):
                crowd[i] -= sum(owner_of(placed.pod) == owner for placed in info.pods.values())
        return _scaled(crowd)


class PreferredNeighbours:
    """Prefer nodes that match preferred affinity and anti-affinity to other pods."""

    name = "InterPodAffinity"

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours

    def scores(self, candidate: Candidate, nodes: Sample) -> Scores | None:
        preference = self._neighbours.preference(candidate, nodes.positions)
        return _scaled([float(preference.get(position, 0)) for position in nodes.positions]) if preference else None


class BetterAlternatives:
    """Prefer nodes that satisfy better-ranked alternatives of the pod's requests (KEP-4816)."""

    name = "DynamicResources"

    def __init__(self, alternatives: Callable[[NodeInfo], float]) -> None:
        self._alternatives = alternatives

    def scores(self, candidate: Candidate, nodes: Sample) -> Scores | None:
        raw = [self._alternatives(info) for info in nodes.infos]
        top = max(raw, default=0.0)
        return [MAX * value / top for value in raw] if top else None


class DevicePacking:
    """Prefer nodes, PCIe roots and physical devices that are already partly used, so that others stay free."""

    name = "DevicePacking"

    def __init__(self, cost: Callable[[NodeInfo], float | None]) -> None:
        """`cost` returns the cost of what the pod's devices would start to use on a node.

        It returns None if the cost is unknown or no devices are needed.
        """
        self._cost = cost

    def scores(self, candidate: Candidate, nodes: Sample) -> Scores | None:
        costs = [self._cost(info) for info in nodes.infos]
        known = [cost for cost in costs if cost is not None]
        worst = max(known, default=0.0)
        return _scaled([-(worst if cost is None else cost) for cost in costs]) if known else None


def owner_of(pod: Pod) -> str:
    """Return the uid of the controller that owns a pod; empty if the pod has no controller."""
    return next((ref.uid for ref in pod.metadata.ownerReferences if ref.controller), "")


def weighted(candidate: Candidate, nodes: Sample, rules: Sequence[tuple[Score, float]]) -> dict[str, Scores]:
    """Return by name the weighted values of each score that applies to the pod, one value per node.

    Scores with weight 0, and those that have nothing to say about the pod, are left out.
    """
    said = ((rule.name, weight, rule.scores(candidate, nodes)) for rule, weight in rules if weight)
    return {name: [weight * score for score in scores] for name, weight, scores in said if scores is not None}


def best(candidate: Candidate, nodes: Sample, rules: Sequence[tuple[Score, float]], preferred: str = "") -> NodeInfo:
    """Return the node with the highest weighted sum. `nodes` must not be empty.

    Among equal nodes, the `preferred` node by name wins, or else the first.
    """
    said = [(scores, weight) for rule, weight in rules if weight and (scores := rule.scores(candidate, nodes))]
    totals: Scores = said[0][0] if said else []
    if len(said) > 1:  # the weight of a single score has no effect
        totals = [0.0] * len(nodes)
        for scores, weight in said:
            totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
    top = max(totals, default=0.0)
    if preferred:
        for index, info in enumerate(nodes.infos):
            if info.name == preferred and (not totals or totals[index] == top):
                return info
    return nodes[totals.index(top) if totals else 0]


def _scaled(raw: Scores) -> Scores:
    """Scale values to 0..100. If all values are equal, returns 100 for each."""
    low, high = min(raw, default=0.0), max(raw, default=0.0)
    return [MAX * (value - low) / (high - low) for value in raw] if high > low else [float(MAX)] * len(raw)
