"""One attempt to place one pod: which nodes are left after each rule, and which of them is best.

Synchronous from start to end, so the picture cannot change under it. The answer is a decision, or a refusal that says
for every node why it was refused, in the words that users know.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice

from dray.api.types.core import TopologySpreadConstraint
from dray.scheduler.configuration import Profile
from dray.scheduler.demand import Candidate
from dray.scheduler.devices import CANNOT_ALLOCATE, NAME, TIMED_OUT, Devices, PodClaims, Promise
from dray.scheduler.filters import NODE_AFFINITY, NODE_FILTERS, TAINT_TOLERATION, KeptSets
from dray.scheduler.neighbours import SPREADING, SPREADING_LABEL, Neighbours
from dray.scheduler.nodes import NodeInfo, NodeTable, Sample
from dray.scheduler.scores import (
    BetterAlternatives,
    FewTaints,
    LeastAllocated,
    PreferredNeighbours,
    PreferredNodes,
    Score,
    Spreading,
    best,
)

COMPARED = 100  # nodes that are scored; Kubernetes, too, looks at no fewer and, in large clusters, at not many more


@dataclass
class Refused(Exception):
    """No node fits. `plugins` are those whose verdict must change; `message` is for the pod."""

    plugins: frozenset[str]
    message: str
    blocking: PodClaims | None = None  # where an allocation is in the way, for PostFilter
    timed_out: bool = False  # there may be a node, but to find out takes too long
    reason: str = "Unschedulable"  # of the pod's condition


class _Tally:
    """Refused nodes by plugin and reason."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.plugins: set[str] = set()
        self.reasons: dict[str, int] = {}
        self.notes: list[str] = []  # what helps, after Kubernetes' words

    @property
    def timed_out(self) -> bool:
        return TIMED_OUT in self.reasons

    def add(self, plugin: str, reason: str, nodes: int = 1) -> None:
        self.plugins.add(plugin)
        self.reasons[reason] = self.reasons.get(reason, 0) + nodes

    def message(self) -> str:
        listed = sorted(f"{count} {reason}" for reason, count in self.reasons.items())
        text = f"0/{self.total} nodes are available" + (": " + ", ".join(listed) + "." if listed else ".")
        return " ".join([text, *filter(None, self.notes)])


class Placement:
    """Finds nodes for pods."""

    def __init__(self, table: NodeTable, neighbours: Neighbours, devices: Devices) -> None:
        self._table = table
        self._sets = KeptSets(table)
        self._neighbours = neighbours
        self._devices = devices
        self._start = 0  # where the next pod starts to look, so that load spreads over equal nodes
        self._rules: tuple[Score, ...] = (
            LeastAllocated(),
            PreferredNodes(),
            FewTaints(),
            Spreading(neighbours),
            PreferredNeighbours(neighbours),
        )

    def decide(self, candidate: Candidate, claims: PodClaims, profile: Profile) -> Promise:
        """A node and devices for the pod. Raises Refused, Wrong, or Thinking where the attempt must go on later."""
        tally = _Tally(len(self._table))
        nodes = self._fitting(candidate, claims, profile, tally)
        while nodes:
            info = self._choose(candidate, claims, profile, nodes)
            promise, reason = self._devices.promise(claims, info, profile.filter_timeout)
            if promise is not None:
                return promise
            tally.add(NAME, reason)
            nodes &= ~(1 << info.position)
        blocking = claims if claims.elsewhere else None
        raise Refused(frozenset(tally.plugins), tally.message(), blocking, timed_out=tally.timed_out)

    def _fitting(self, candidate: Candidate, claims: PodClaims, profile: Profile, tally: _Tally) -> int:
        nodes = self._table.everyone
        for rule in NODE_FILTERS:
            if rule.name in profile.disabled_filters:
                continue
            accepted = self._sets.accepting(rule, candidate)
            if refused := nodes & ~accepted:
                tally.plugins.add(rule.name)
                for info in self._table.named(refused):
                    for reason in rule.reasons(candidate, info):
                        tally.add(rule.name, reason)
                nodes &= accepted
        eligible = partial(self._spread_over, candidate)
        for reason, refused in self._neighbours.refused(candidate, nodes, eligible).items():
            plugin = "PodTopologySpread" if reason in (SPREADING, SPREADING_LABEL) else "InterPodAffinity"
            if plugin not in profile.disabled_filters:
                tally.add(plugin, reason, refused.bit_count())
                nodes &= ~refused
        if not claims.uses or NAME in profile.disabled_filters:
            return nodes
        nodes, by_reason = self._devices.narrow(claims, nodes, profile.filter_timeout)
        for reason, refused in by_reason.items():
            tally.add(NAME, reason, refused.bit_count())
            if reason == CANNOT_ALLOCATE and not nodes:
                tally.notes.append(self._devices.explain(claims, refused))
            elif reason == TIMED_OUT:
                tally.notes += [f"node {info.name}: {TIMED_OUT}." for info in islice(self._table.named(refused), 1)]
        return nodes

    def _spread_over(self, candidate: Candidate, constraint: TopologySpreadConstraint) -> int:
        """The nodes whose domains count for a constraint, whether there is room on them or not."""
        nodes = self._table.everyone
        if constraint.nodeAffinityPolicy != "Ignore":
            nodes &= self._sets.accepting(NODE_AFFINITY, candidate)
        if constraint.nodeTaintsPolicy == "Honor":
            nodes &= self._sets.accepting(TAINT_TOLERATION, candidate)
        return nodes

    def _choose(self, candidate: Candidate, claims: PodClaims, profile: Profile, nodes: int) -> NodeInfo:
        compared = self._sample(nodes)
        if len(compared) == 1:
            return compared[0]
        rules: list[tuple[Score, float]] = [(rule, profile.weights.get(rule.name, 0)) for rule in self._rules]
        if any(request.firstAvailable for claim in claims.pending for request in claim.spec.devices.requests or ()):
            alternatives = BetterAlternatives(lambda info: self._devices.preference(claims, info))
            rules.append((alternatives, profile.weights.get(NAME, 0)))
        return best(candidate, compared, rules)

    def _sample(self, nodes: int) -> Sample:
        """Up to a hundred of the nodes, starting where the last pod stopped."""
        if nodes.bit_count() <= COMPARED:
            return self._table.sample(nodes, 0, COMPARED)
        chosen = self._table.sample(nodes, self._start, COMPARED)
        self._start = chosen.positions[-1] + 1
        return chosen
