"""Rules that look at the pods on other nodes: affinity between pods, and spreading over domains.

Both count matching pods by the value of a node label (the *domain*). They cost a walk over the placed pods, so a pod
without such rules in a cluster without such pods skips them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from dray.api.selectors import label_selector
from dray.api.types.core import Pod, PodAffinityTerm, TopologySpreadConstraint
from dray.scheduler.demand import Candidate
from dray.scheduler.nodes import NodeInfo, NodeTable

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREADING = "node(s) didn't match pod topology spread constraints"
SPREADING_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"

NamespaceLabels = Callable[[str], Mapping[str, str]]


class Neighbours:
    """Judges a pod against the pods that are placed."""

    def __init__(self, table: NodeTable, namespace_labels: NamespaceLabels) -> None:
        self._table = table
        self._namespace_labels = namespace_labels

    def refused(self, candidate: Candidate, nodes: int, eligible: int | None = None) -> dict[str, int]:
        """Which of these nodes are refused, by reason; a node appears under the first reason only.

        Pods are spread over the domains of the `eligible` nodes, also where those are full; without, over `nodes`.
        """
        refused: dict[str, int] = {}
        for reason, verdict in self._verdicts(candidate, nodes, nodes if eligible is None else eligible):
            bad = verdict & nodes
            if bad:
                refused[reason] = refused.get(reason, 0) | bad
                nodes &= ~bad
        return refused

    def _verdicts(self, candidate: Candidate, nodes: int, eligible: int) -> Iterable[tuple[str, int]]:
        affinity = candidate.spec.affinity
        if affinity and affinity.podAffinity:
            yield (
                AFFINITY,
                self._unattracted(candidate, affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution),
            )
        if affinity and affinity.podAntiAffinity:
            yield (
                ANTI_AFFINITY,
                self._repelled(candidate, affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution),
            )
        if self._table.refusers:
            yield EXISTING_ANTI_AFFINITY, self._refused_by_others(candidate)
        for constraint in candidate.spec.topologySpreadConstraints:
            if constraint.whenUnsatisfiable == "DoNotSchedule":
                yield from self._unbalanced(candidate, constraint, nodes, eligible)

    def _unattracted(self, candidate: Candidate, terms: Iterable[PodAffinityTerm]) -> int:
        """Nodes outside the domains of the pods that this one wants to be near."""
        terms = tuple(terms)
        domains = [self._domains(candidate.pod, term) for term in terms]
        nobody_yet = not any(domains)
        first_of_its_kind = nobody_yet and all(self.matches(term, candidate.pod, candidate.pod) for term in terms)
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
            values = self._domains(candidate.pod, term)
            bad |= self._in_domains(term.topologyKey, values)
        return bad

    def _refused_by_others(self, candidate: Candidate) -> int:
        """Nodes in the domains of pods that refuse this one."""
        bad = 0
        for placed, info in self._table.refusers.values():
            for term in required_anti_affinity(placed.pod):
                value = label(info, term.topologyKey)
                if value is not None and self.matches(term, placed.pod, candidate.pod):
                    bad |= self._in_domains(term.topologyKey, {value: 1})
        return bad

    def _unbalanced(
        self, candidate: Candidate, constraint: TopologySpreadConstraint, nodes: int, eligible: int
    ) -> Iterable[tuple[str, int]]:
        """Nodes whose domain has too many matching pods already."""
        counts = self.spread_counts(candidate, constraint, eligible)
        fewest = min(counts.values(), default=0)
        if constraint.minDomains is not None and len(counts) < constraint.minDomains:
            fewest = 0
        itself = label_selector(constraint.labelSelector).matches(candidate.pod.metadata.labels)
        unlabelled = crowded = 0
        for info in self._table.named(nodes):
            value = label(info, constraint.topologyKey)
            if value is None:
                unlabelled |= 1 << info.position
            elif counts[value] + itself - fewest > constraint.maxSkew:
                crowded |= 1 << info.position
        yield SPREADING_LABEL, unlabelled
        yield SPREADING, crowded

    def spread_counts(self, candidate: Candidate, constraint: TopologySpreadConstraint, nodes: int) -> Counter[str]:
        """How many matching pods each domain of these nodes has."""
        counts: Counter[str] = Counter()
        for info in self._table.named(nodes):
            value = label(info, constraint.topologyKey)
            if value is None:
                continue
            counts[value] += sum(
                placed.pod.metadata.namespace == candidate.pod.metadata.namespace
                and placed.pod.metadata.deletionTimestamp is None
                and label_selector(constraint.labelSelector).matches(placed.pod.metadata.labels)
                for placed in info.pods.values()
            )
        return counts

    def _domains(self, owner: Pod, term: PodAffinityTerm) -> Counter[str]:
        """The domains with placed pods that a term of `owner` selects, and how many."""
        found: Counter[str] = Counter()
        for placed, info in self._table.placed():
            value = label(info, term.topologyKey)
            if value is not None and self.matches(term, owner, placed.pod):
                found[value] += 1
        return found

    def _in_domains(self, key: str, values: Mapping[str, int]) -> int:
        if not values:
            return 0
        return sum(1 << info.position for info in self._table if label(info, key) in values)

    def matches(self, term: PodAffinityTerm, owner: Pod, other: Pod) -> bool:
        """Whether a term of `owner` selects `other`."""
        if not label_selector(term.labelSelector).matches(other.metadata.labels):
            return False
        namespace = other.metadata.namespace
        if namespace in term.namespaces:
            return True
        if term.namespaceSelector is not None:
            return label_selector(term.namespaceSelector).matches(self._namespace_labels(namespace))
        return not term.namespaces and namespace == owner.metadata.namespace

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
                domains = self._domains(candidate.pod, weighted.podAffinityTerm)
                for info in self._table if domains else ():
                    count = domains.get(label(info, weighted.podAffinityTerm.topologyKey) or "", 0)
                    total[info.position] += sign * weighted.weight * count
        return total


def required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.podAntiAffinity is None:
        return ()
    return affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution


def label(info: NodeInfo, key: str) -> str | None:
    return info.node.metadata.labels.get(key) if info.node is not None else None
