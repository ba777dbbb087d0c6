"""All scheduling rules, composed once, for the scheduler as well as for explain.

The scheduler asks each rule only about the nodes that all earlier rules accept. Explain asks every rule about every
node. For each node, the scheduler's reasons are therefore the first of explain's. Left out: scores of nodes that fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import partial

from dray.allocator import UNLIMITED, Allocated, Budget, Failed, GaveUp, Turn, Unallocatable
from dray.allocator.bits import without
from dray.api.claim_access import PodClaims
from dray.api.reasons.devices import Reasons, TimedOut
from dray.api.reasons.nodes import NodeCode, NodeReason, NodeVerdict, SchedulingRule
from dray.api.types.core import TopologySpreadConstraint
from dray.api.types.resource import AllocationResult
from dray.verdicts.demand import Candidate
from dray.verdicts.devices import NOTHING_ASKED, DeviceRule, DeviceVerdict, Search
from dray.verdicts.kept_sets import KeptSets
from dray.verdicts.neighbours import Neighbours
from dray.verdicts.node_rules import (
    NODE_AFFINITY,
    NODE_RULES,
    TAINT_TOLERATION,
    NodeRefusal,
    NodeRule,
)
from dray.verdicts.nodes import NodeInfo, NodeTable

_AFFINITY, _SPREAD = SchedulingRule.INTER_POD_AFFINITY, SchedulingRule.POD_TOPOLOGY_SPREAD
_DEVICES = SchedulingRule.DYNAMIC_RESOURCES
_ORDER = {code: number for number, code in enumerate(NodeCode)}
AskedRules = list[tuple[SchedulingRule, int]]  # rules in the order in which they were asked, each about a set of nodes


class Judgement:
    """Result of the rules for a pod: the nodes that fit, and the refused nodes by reason."""

    __slots__ = ("claims", "devices", "nodes", "pod", "refused")

    def __init__(self, pod: Candidate, claims: PodClaims, nodes: int) -> None:
        self.pod = pod
        self.claims = claims
        self.nodes = nodes
        self.refused: dict[NodeReason, int] = {}
        self.devices: DeviceVerdict = NOTHING_ASKED

    @property
    def rules(self) -> frozenset[SchedulingRule]:
        """The rules that refuse a node."""
        return frozenset(reason.rule for reason in self.refused)

    def refuse(self, reason: NodeReason, nodes: int) -> None:
        self.refused[reason] = self.refused.get(reason, 0) | nodes
        self.nodes = without(self.nodes, nodes)

    def by_node(self, table: NodeTable) -> dict[str, list[NodeReason]]:
        """Return the reasons by node name, in the order of the rules. The list of a node that no rule refuses is
        empty.
        """
        said: dict[str, list[NodeReason]] = {info.name: [] for info in table}
        for reason in sorted(self.refused, key=lambda reason: (_ORDER[reason.code], reason.subject)):
            for info in table.named(self.refused[reason]):
                said[info.name].append(reason)
        return said


class Rules:
    """The rules on the current state of the cluster."""

    def __init__(self, table: NodeTable, neighbours: Neighbours, devices: DeviceRule) -> None:
        self._table = table
        self._neighbours = neighbours
        self._devices = devices
        self._sets = KeptSets(table)

    def judge(
        self,
        pod: Candidate,
        claims: PodClaims,
        budget: Budget = UNLIMITED,
        turn: Turn | None = None,
        *,
        disabled: Set[str] = frozenset(),
        thorough: bool = False,
        among: int | None = None,
        asked: AskedRules | None = None,
    ) -> Judgement:
        """Apply the rules to all nodes, or to those in the bit set `among`, except for rules whose names are in
        `disabled`.

        Unless `thorough` is set, each rule is asked only about nodes that all earlier rules accept. Every rule that
        was asked is appended to `asked`, with the set of nodes.
        """
        everyone = self._table.everyone if among is None else self._table.everyone & among
        judgement = Judgement(pod, claims, everyone)
        is_served = bool(pod.demand.extended) and _DEVICES not in disabled
        pod.serve(self._devices.extended.served(pod.demand.extended) if is_served else {})
        for rule in NODE_RULES:
            if rule.name not in disabled:
                nodes = everyone if thorough else judgement.nodes
                if asked is not None:
                    asked.append((rule.name, nodes))
                accepted = nodes & self._sets.accepting(rule, pod)
                if accepted != nodes:
                    self._refuse(rule, pod, judgement, nodes ^ accepted)
        if _AFFINITY not in disabled and (pod.spec.affinity is not None or self._table.refusers):
            nodes = everyone if thorough else judgement.nodes
            if asked is not None:
                asked.append((_AFFINITY, nodes))
            _refuse_once(judgement, self._neighbours.affinity(pod), nodes)
        if _SPREAD not in disabled and pod.spec.topologySpreadConstraints:
            nodes = everyone if thorough else judgement.nodes
            if asked is not None:
                asked.append((_SPREAD, nodes))
            spreading = self._neighbours.spreading(pod, nodes, partial(self._spread_over, pod))
            _refuse_once(judgement, spreading, nodes)
        has_devices = claims.uses or pod.extended or claims.left_over is not None
        if has_devices and _DEVICES not in disabled:
            nodes = everyone if thorough else judgement.nodes
            if asked is not None:
                asked.append((_DEVICES, nodes))
            judgement.devices = self._devices.judge(pod, claims, nodes, budget, thorough=thorough, turn=turn)
            for reason, bad in judgement.devices.refused:
                judgement.refuse(reason, bad)
        return judgement

    def _refuse(self, rule: NodeRule, pod: Candidate, judgement: Judgement, refused: int) -> None:
        for info in self._table.named(refused):
            for reason in rule.reasons(pod, info):
                judgement.refuse(reason, 1 << info.position)

    def _spread_over(self, pod: Candidate, constraint: TopologySpreadConstraint) -> int:
        """Return the nodes whose domains a spread constraint counts, according to its node inclusion policies."""
        nodes = self._table.everyone
        if constraint.nodeAffinityPolicy != "Ignore":
            nodes &= self._sets.accepting(NODE_AFFINITY, pod)
        if constraint.nodeTaintsPolicy == "Honor":
            nodes &= self._sets.accepting(TAINT_TOLERATION, pod)
        return nodes

    def verdicts(self, judgement: Judgement) -> list[NodeVerdict]:
        """Return a verdict for each node, ordered by name, with the shortage of devices on it."""
        said = judgement.by_node(self._table)
        infos = sorted(self._table, key=lambda info: info.name)
        found = judgement.devices
        return [self._verdict(info, said[info.name], judgement, found.search_at(info.position)) for info in infos]

    def _verdict(
        self,
        info: NodeInfo,
        said: list[NodeReason],
        judgement: Judgement,
        search: Search | None,
    ) -> NodeVerdict:
        devices: Reasons | None = None
        progress: TimedOut | None = None
        promised: dict[str, AllocationResult] = {}
        if search is not None and not search.fits.beyond >> info.position & 1:
            match self._devices.index.allocate(info.name, search.pending, search.budget.node):
                case Allocated() as outcome:
                    promised = outcome.allocations(search.pending)
                case Unallocatable() as outcome:
                    devices = outcome.explain()
                case GaveUp(progress):
                    pass
                case Failed(problem) if not any(reason.problem for reason in said):
                    said.append(NodeReason(NodeCode.DEVICES_WRONG, problem=problem))
        if self._devices.index.asks_more_of_nodes and not said:
            taken = self._devices.from_node(judgement.pod, judgement.claims, info, promised)
            said += [taken] if isinstance(taken, NodeReason) else []
        return NodeVerdict(info.name, tuple(said), devices, progress)


def _refuse_once(judgement: Judgement, refusals: Iterable[NodeRefusal], nodes: int) -> None:
    """Record only the first of several reasons that one rule gives for a node."""
    for reason, bad in refusals:
        if refused := bad & nodes:
            judgement.refuse(reason, refused)
            nodes &= ~refused
