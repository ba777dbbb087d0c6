"""Rules that look at pods on other nodes: InterPodAffinity and PodTopologySpread.

Both count matching pods by the value of a node label (the *topology domain*). They walk over all placed pods, unless
neither the pod nor a placed pod has such a rule. If the walk would take long, the scheduler has the pods counted in
parts before (`census`). Left out: devices (`devices`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from dray.api.reasons.nodes import NodeCode, NodeReason
from dray.api.selectors import LabelRequirements, Requirement, label_selector
from dray.api.types.core import Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint
from dray.verdicts.census import EligibleNodes, PodCensus, Question, Selects
from dray.verdicts.demand import Candidate
from dray.verdicts.node_rules import NodeRefusal
from dray.verdicts.nodes import NodeInfo, NodeTable, PlacedPod, required_anti_affinity

NamespaceLabels = Callable[[str], Mapping[str, str]]

COMPARED_AT_ONCE = 30_000  # comparisons of a rule with a pod that fit into one turn: 7 ms
_SCORED = 100  # default number of nodes on which ScheduleAnyway constraints count pods


class Neighbours:
    """Applies the rules of a pod, and those of placed pods, to all nodes."""

    def __init__(self, table: NodeTable, namespace_labels: NamespaceLabels) -> None:
        self._table = table
        self._namespace_labels = namespace_labels
        self.census: PodCensus | None = None  # of the pod that is being judged, where there is one

    def is_long(self, candidate: Candidate, limit: int = COMPARED_AT_ONCE) -> bool:
        """Return whether comparing a pod with all placed pods takes more than `limit` comparisons."""
        spec, table = candidate.spec, self._table
        comparisons = table.refusing
        if spec.affinity is not None or spec.topologySpreadConstraints:
            soft = sum(1 for one in spec.topologySpreadConstraints if one.whenUnsatisfiable == "ScheduleAnyway")
            comparisons += (sum(1 for _ in _rules_of(spec)) - soft) * table.pods
            comparisons += soft * table.pods * _SCORED // max(_SCORED, len(table))
        return comparisons > limit

    def question(self, candidate: Candidate) -> Question:
        """Return what a census has to count for a pod."""
        pod, affinity = candidate.pod, candidate.spec.affinity
        near: tuple[PodAffinityTerm, ...] = ()
        if affinity and affinity.podAffinity:
            near = affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution
        selections = [self._selection(term, pod) for term in near]
        counted: list[tuple[PodAffinityTerm | TopologySpreadConstraint, Selects]] = []
        for rule in _rules_of(candidate.spec):
            if isinstance(rule, TopologySpreadConstraint):
                counted.append((rule, _spread_selection(rule, pod)))
            elif not any(rule is term for term in near):
                counted.append((rule, self._selection(rule, pod)))

        def refuses(placed: PlacedPod) -> Iterator[str]:
            for term in required_anti_affinity(placed.pod):
                if self._refuses(term, placed.pod, pod):
                    yield term.topologyKey

        return Question(
            pod,
            near,
            lambda other: all(selects(other) for selects in selections),
            counted,
            refuses,
            lambda constraint: selector_of(constraint, pod).matches(pod.metadata.labels),
        )

    def affinity(self, candidate: Candidate) -> Iterator[NodeRefusal]:
        """Yield the nodes that InterPodAffinity refuses, because of the pod's own terms or those of placed pods."""
        if self.census is not None:
            yield from self.census.affinity()
            return
        affinity = candidate.spec.affinity
        if affinity and affinity.podAffinity:
            terms = affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution
            yield NodeReason(NodeCode.POD_AFFINITY), self._unattracted(candidate, terms)
        if affinity and affinity.podAntiAffinity:
            terms = affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
            yield NodeReason(NodeCode.POD_ANTI_AFFINITY), self._repelled(candidate, terms)
        if self._table.refusers:
            yield NodeReason(NodeCode.EXISTING_ANTI_AFFINITY), self._refused_by_others(candidate)

    def spreading(self, candidate: Candidate, nodes: int, eligible: EligibleNodes) -> Iterator[NodeRefusal]:
        """Yield the nodes of a set that PodTopologySpread refuses.

        `eligible` returns the nodes whose domains a constraint counts, including nodes that are full.
        """
        if self.census is not None:
            yield from self.census.spreading(nodes, eligible)
            return
        for constraint in candidate.spec.topologySpreadConstraints:
            if constraint.whenUnsatisfiable == "DoNotSchedule":
                yield from self._unbalanced(candidate, constraint, nodes, eligible(constraint))

    def _unattracted(self, candidate: Candidate, terms: Iterable[PodAffinityTerm]) -> int:
        """Return the nodes outside the domains of the pods that all required affinity terms select.

        If there is no such pod and the terms select the candidate itself, only nodes without a topology label are
        returned.
        """
        terms = tuple(terms)
        selections = [self._selection(term, candidate.pod) for term in terms]

        def wanted(other: Pod) -> bool:
            return all(selects(other) for selects in selections)

        near = [info for placed, info in self._table.placed() if not placed.is_nominated and wanted(placed.pod)]
        domains = [{label(info, term.topologyKey) for info in near} - {None} for term in terms]
        first_of_its_kind = not any(domains) and wanted(candidate.pod)
        bad = 0
        for info in self._table:
            for term, values in zip(terms, domains, strict=True):
                value = label(info, term.topologyKey)
                if value is None or (value not in values and not first_of_its_kind):
                    bad |= 1 << info.position
                    break
        return bad

    def _repelled(self, candidate: Candidate, terms: Iterable[PodAffinityTerm]) -> int:
        """Return the nodes in the domains of pods that a required anti-affinity term selects, as a bit set."""
        bad = 0
        for term in terms:
            values = self._domains(term.topologyKey, self._selection(term, candidate.pod))
            bad |= self._in_domains(term.topologyKey, values)
        return bad

    def _refused_by_others(self, candidate: Candidate) -> int:
        """Return the nodes in the domains of placed pods whose anti-affinity terms select this pod, as a bit set."""
        bad = 0
        for placed, info in self._table.refusers.values():
            for term in required_anti_affinity(placed.pod):
                value = label(info, term.topologyKey)
                if value is not None and self._refuses(term, placed.pod, candidate.pod):
                    bad |= self._in_domains(term.topologyKey, {value: 1})
        return bad

    def _refuses(self, term: PodAffinityTerm, owner: Pod, pod: Pod) -> bool:
        """Return whether an anti-affinity term of a placed pod selects `pod`. Compares matchLabels first, which is
        fast.
        """
        labels, said = pod.metadata.labels, term.labelSelector
        for key, value in said.matchLabels.items() if said is not None else ():
            if labels.get(key) != value:
                return False
        return self._selection(term, owner)(pod)

    def _unbalanced(
        self, candidate: Candidate, constraint: TopologySpreadConstraint, nodes: int, eligible: int
    ) -> Iterator[NodeRefusal]:
        """Yield the nodes that lack the topology label, and those whose domain already has too many matching pods.

        `nodes` are examined, and `eligible` are the nodes whose pods count. With fewer domains than minDomains, the
        smallest count is taken to be 0.
        """
        key, allowed = constraint.topologyKey, constraint.maxSkew
        counts = self.spread_counts(candidate, constraint, eligible)
        fewest = min(counts.values(), default=0)
        if constraint.minDomains is not None and len(counts) < constraint.minDomains:
            fewest = 0
        itself = selector_of(constraint, candidate.pod).matches(candidate.pod.metadata.labels)
        for info in self._table.named(nodes):
            value = label(info, key)
            if value is None:
                yield NodeReason(NodeCode.SPREAD_LABEL, key), 1 << info.position
            elif (skew := counts[value] + itself - fewest) > allowed:
                yield NodeReason(NodeCode.SPREAD, key, wanted=allowed, found=skew), 1 << info.position

    def spread_counts(self, candidate: Candidate, constraint: TopologySpreadConstraint, nodes: int) -> Counter[str]:
        """Return the number of matching pods in each topology domain of a set of nodes, by value of the label.

        Domains without matching pods are included with 0. Nodes without the label are left out.
        """
        if self.census is not None:
            return self.census.spread_counts(constraint, nodes)
        counts: Counter[str] = Counter()
        selects = _spread_selection(constraint, candidate.pod)
        for info in self._table.named(nodes):
            value = label(info, constraint.topologyKey)
            if value is not None:
                counts[value] += sum(selects(placed.pod) for placed in info.pods.values())
        return counts

    def _domains(self, key: str, selects: Selects) -> Counter[str]:
        """Return the number of selected placed pods by value of the topology label `key`, without values that have
        none.
        """
        found: Counter[str] = Counter()
        for placed, info in self._table.placed():
            value = label(info, key)
            if value is not None and selects(placed.pod):
                found[value] += 1
        return found

    def _in_domains(self, key: str, values: Mapping[str, int]) -> int:
        if not values:
            return 0
        return sum(1 << info.position for info in self._table if label(info, key) in values)

    def _selection(self, term: PodAffinityTerm, owner: Pod) -> Selects:
        """Return a function that says whether an affinity term of `owner` selects a pod."""
        selector = selector_of(term, owner)
        namespaces = term.namespaces
        if not namespaces and term.namespaceSelector is None:
            namespaces = (owner.metadata.namespace,)
        among = label_selector(term.namespaceSelector)

        def selects(other: Pod) -> bool:
            namespace = other.metadata.namespace
            return selector.matches(other.metadata.labels) and (
                namespace in namespaces or among.matches(self._namespace_labels(namespace))
            )

        return selects

    def preference(self, candidate: Candidate, positions: Iterable[int]) -> dict[int, int]:
        """Return the sum of the weights of the pod's preferred affinity terms, by node position.

        Each matching pod in the node's domain counts. Terms of anti-affinity count negatively. Empty if no placed pod
        matches.
        """
        if self.census is not None:
            return self.census.preference(_preferred(candidate.spec), positions)
        total: Counter[int] = Counter()
        for weight, term in _preferred(candidate.spec):
            domains = self._domains(term.topologyKey, self._selection(term, candidate.pod))
            for info in self._table if domains else ():
                count = domains.get(label(info, term.topologyKey) or "", 0)
                total[info.position] += weight * count
        return total


def _preferred(spec: PodSpec) -> Iterator[tuple[int, PodAffinityTerm]]:
    """Yield the preferred affinity terms of a pod with their weights; those of anti-affinity are negative."""
    affinity = spec.affinity
    for sign, rules in ((1, affinity.podAffinity), (-1, affinity.podAntiAffinity)) if affinity else ():
        for weighted in rules.preferredDuringSchedulingIgnoredDuringExecution if rules is not None else ():
            yield sign * weighted.weight, weighted.podAffinityTerm


def _rules_of(spec: PodSpec) -> Iterator[PodAffinityTerm | TopologySpreadConstraint]:
    """Yield all affinity terms and topology spread constraints of a pod."""
    yield from spec.topologySpreadConstraints
    for rules in (spec.affinity.podAffinity, spec.affinity.podAntiAffinity) if spec.affinity else ():
        if rules is not None:
            yield from rules.requiredDuringSchedulingIgnoredDuringExecution
    for _, term in _preferred(spec):
        yield term


def _spread_selection(constraint: TopologySpreadConstraint, owner: Pod) -> Selects:
    """Which pods a constraint of `owner` counts."""
    namespace, selector = owner.metadata.namespace, selector_of(constraint, owner)

    def selects(other: Pod) -> bool:
        meta = other.metadata
        return meta.namespace == namespace and meta.deletionTimestamp is None and selector.matches(meta.labels)

    return selects


def selector_of(rule: PodAffinityTerm | TopologySpreadConstraint, owner: Pod) -> LabelRequirements:
    """Return the label requirements of a rule of pod `owner`.

    These are the rule's selector, equality with the owner's values for `matchLabelKeys`, and inequality for
    `mismatchLabelKeys`. Keys that the owner lacks are ignored.
    """
    selector, labels = label_selector(rule.labelSelector), owner.metadata.labels
    others = rule.mismatchLabelKeys if isinstance(rule, PodAffinityTerm) else ()
    if not rule.matchLabelKeys and not others:
        return selector  # as nearly always; a pod may be compared with thousands
    same = [Requirement(key, "=", (labels[key],)) for key in rule.matchLabelKeys if key in labels]
    different = [Requirement(key, "!=", (labels[key],)) for key in others if key in labels]
    return LabelRequirements((*selector.requirements, *same, *different), selector.nothing)


def label(info: NodeInfo, key: str) -> str | None:
    return info.node.metadata.labels.get(key) if info.node is not None else None
