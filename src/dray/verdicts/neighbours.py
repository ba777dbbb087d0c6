"""Rules that look at the pods on other nodes: affinity between pods, and spreading over domains.

Both count matching pods by the value of a node label (the *domain*). They cost a walk over the placed pods, which is
skipped where neither the pod nor a placed pod has a rule of this kind. Left out: devices (`devices`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from dray.api.reasons.nodes import NodeCode, NodeReason
from dray.api.selectors import LabelSelector, Requirement, label_selector
from dray.api.types.core import Pod, PodAffinityTerm, TopologySpreadConstraint
from dray.verdicts.demand import Candidate
from dray.verdicts.node_rules import Refusal
from dray.verdicts.nodes import NodeInfo, NodeTable

NamespaceLabels = Callable[[str], Mapping[str, str]]
Eligible = Callable[[TopologySpreadConstraint], int]
Selects = Callable[[Pod], bool]


class Neighbours:
    """Judges a pod against the pods that are placed."""

    def __init__(self, table: NodeTable, namespace_labels: NamespaceLabels) -> None:
        self._table = table
        self._namespace_labels = namespace_labels

    def affinity(self, candidate: Candidate) -> Iterator[Refusal]:
        """InterPodAffinity: the nodes that the pod, or a pod that is placed, does not want it on."""
        affinity = candidate.spec.affinity
        if affinity and affinity.podAffinity:
            terms = affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution
            yield NodeReason(NodeCode.POD_AFFINITY), self._unattracted(candidate, terms)
        if affinity and affinity.podAntiAffinity:
            terms = affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
            yield NodeReason(NodeCode.POD_ANTI_AFFINITY), self._repelled(candidate, terms)
        if self._table.refusers:
            yield NodeReason(NodeCode.EXISTING_ANTI_AFFINITY), self._refused_by_others(candidate)

    def spreading(self, candidate: Candidate, nodes: int, eligible: Eligible) -> Iterator[Refusal]:
        """PodTopologySpread: which of these nodes would make a spread constraint of the pod false.

        Pods are spread over the domains of the nodes that are `eligible` for a constraint, also where those are full.
        """
        for constraint in candidate.spec.topologySpreadConstraints:
            if constraint.whenUnsatisfiable == "DoNotSchedule":
                yield from self._unbalanced(candidate, constraint, nodes, eligible(constraint))

    def _unattracted(self, candidate: Candidate, terms: Iterable[PodAffinityTerm]) -> int:
        """Nodes outside the domains of the pods that this one wants to be near: those that all of its terms select."""
        terms = tuple(terms)
        selections = [self._selection(term, candidate.pod) for term in terms]

        def wanted(other: Pod) -> bool:
            return all(selects(other) for selects in selections)

        near = [info for placed, info in self._table.placed() if wanted(placed.pod)]
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
        """Nodes in the domains of the pods that this one wants to be away from."""
        bad = 0
        for term in terms:
            values = self._domains(term.topologyKey, self._selection(term, candidate.pod))
            bad |= self._in_domains(term.topologyKey, values)
        return bad

    def _refused_by_others(self, candidate: Candidate) -> int:
        """Nodes in the domains of pods that refuse this one."""
        bad = 0
        for placed, info in self._table.refusers.values():
            for term in required_anti_affinity(placed.pod):
                value = label(info, term.topologyKey)
                if value is not None and self._selection(term, placed.pod)(candidate.pod):
                    bad |= self._in_domains(term.topologyKey, {value: 1})
        return bad

    def _unbalanced(
        self, candidate: Candidate, constraint: TopologySpreadConstraint, nodes: int, eligible: int
    ) -> Iterator[Refusal]:
        """Nodes without a domain, and nodes whose domain has too many matching pods already."""
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
        """How many matching pods each domain of these nodes has."""
        counts: Counter[str] = Counter()
        selector = selector_of(constraint, candidate.pod)
        for info in self._table.named(nodes):
            value = label(info, constraint.topologyKey)
            if value is None:
                continue
            counts[value] += sum(
                placed.pod.metadata.namespace == candidate.pod.metadata.namespace
                and placed.pod.metadata.deletionTimestamp is None
                and selector.matches(placed.pod.metadata.labels)
                for placed in info.pods.values()
            )
        return counts

    def _domains(self, key: str, selects: Selects) -> Counter[str]:
        """The domains with placed pods that are selected, and how many."""
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
        """Which pods a term of `owner` selects."""
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

    def preference(self, candidate: Candidate) -> dict[int, int]:
        """By node position, how much preferred affinity of the pod speaks for it (or against)."""
        affinity = candidate.spec.affinity
        if affinity is None:
            return {}
        total: Counter[int] = Counter()
        attract = affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution if affinity.podAffinity else ()
        repel = (
            affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution if affinity.podAntiAffinity else ()
        )
        for sign, terms in ((1, attract), (-1, repel)):
            for weighted in terms:
                term = weighted.podAffinityTerm
                domains = self._domains(term.topologyKey, self._selection(term, candidate.pod))
                for info in self._table if domains else ():
                    count = domains.get(label(info, term.topologyKey) or "", 0)
                    total[info.position] += sign * weighted.weight * count
        return total


def selector_of(rule: PodAffinityTerm | TopologySpreadConstraint, owner: Pod) -> LabelSelector:
    """What a rule of `owner` selects by labels: those that it says, and its owner's own for the keys that it names."""
    selector, labels = label_selector(rule.labelSelector), owner.metadata.labels
    others = rule.mismatchLabelKeys if isinstance(rule, PodAffinityTerm) else ()
    if not rule.matchLabelKeys and not others:
        return selector  # as nearly always; a pod may be compared with thousands
    same = [Requirement(key, "=", (labels[key],)) for key in rule.matchLabelKeys if key in labels]
    different = [Requirement(key, "!=", (labels[key],)) for key in others if key in labels]
    return LabelSelector((*selector.requirements, *same, *different), selector.nothing)


def required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.podAntiAffinity is None:
        return ()
    return affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution


def label(info: NodeInfo, key: str) -> str | None:
    return info.node.metadata.labels.get(key) if info.node is not None else None
