"""Affinity and topology spread of one pod in clusters with too many pods and rules to compare in one turn.

A census counts, node after node, the pods that each rule of one pod selects. It does so in parts: other work runs
between two parts, and nodes that change meanwhile are counted again. A complete census gives the same answers as
`Neighbours`, computed by topology domain instead of by node. It exists as long as the attempt to place its pod. Left
out: which pods a rule selects (`neighbours`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dray.api.reasons.nodes import NodeCode, NodeReason
from dray.api.types.core import Pod, PodAffinityTerm, TopologySpreadConstraint
from dray.verdicts.node_rules import NodeRefusal
from dray.verdicts.nodes import NodeInfo, NodeTable, PlacedPod

_AT_ONCE = 64  # comparisons of a rule with a pod in one step

EligibleNodes = Callable[[TopologySpreadConstraint], int]
Selects = Callable[[Pod], bool]
PodTerm = PodAffinityTerm | TopologySpreadConstraint


@dataclass(frozen=True)
class Question:
    """The rules of one pod about placed pods, as functions that a census can count with."""

    pod: Pod
    near: Sequence[PodAffinityTerm]  # all of them must select a pod for it to count
    near_selects: Selects
    counted: Sequence[tuple[PodTerm, Selects]]  # rules that count pods, each by itself
    refuses: Callable[[PlacedPod], Iterable[str]]  # the topology keys by which a placed pod refuses this one
    itself: Callable[[TopologySpreadConstraint], bool]  # whether a constraint counts the pod itself


class PodCensus:
    """Counts, by node, the placed pods that the rules of one pod select."""

    def __init__(self, table: NodeTable, question: Question) -> None:
        self._table = table
        self._question = question
        self._keys = {term.topologyKey for term in question.near} | {rule.topologyKey for rule, _ in question.counted}
        self._near: set[int] = set()  # positions of nodes with pods that the pod wants to be near
        self._counts: list[dict[int, int]] = [{} for _ in question.counted]  # by position, where there are some
        self._refusing: dict[int, set[tuple[str, str]]] = {}  # by position, the domains that refuse the pod for it
        self._domains: dict[str, dict[str, int]] = {}  # topology key → value → the nodes that have it
        self._values: dict[int, dict[str, str]] = {}  # position → topology key → value
        self._waiting: set[int] = set()
        self._seen_objects = self._seen_usage = -1
        self._steps: Iterator[None] | None = None

    def is_about(self, pod: Pod) -> bool:
        """Return whether the census was started for this pod with its current spec and labels."""
        mine = self._question.pod
        return mine.spec is pod.spec and mine.metadata.labels == pod.metadata.labels

    def go_on(self, steps: int) -> bool:
        """Count for at most `steps` steps. Returns whether the census is complete for the current table."""
        self._steps = self._steps or self._count()
        for _ in self._steps:
            steps -= 1
            if steps <= 0:
                return False
        self._steps = None
        return True

    def _count(self) -> Iterator[None]:
        while self._note_changes():
            position = self._waiting.pop()
            info = self._table.infos[position] if position < len(self._table.infos) else None
            self._settle(position, info)
            if info is not None and info.node is not None:
                yield from self._count_pods(position, info.pods.values(), info.node.metadata.labels)
            else:
                self._note(position, [0] * len(self._counts), False, set())

    def _note_changes(self) -> bool:
        """Queue the nodes that have changed. Returns whether any node has to be counted."""
        objects, usage = self._table.object_changes, self._table.usage_changes
        if (self._seen_objects, self._seen_usage) != (objects.end, usage.end):
            for changed in (objects.since(self._seen_objects), usage.since(self._seen_usage)):
                self._waiting.update(range(len(self._table.infos)) if changed is None else changed)
            self._seen_objects, self._seen_usage = objects.end, usage.end
        return bool(self._waiting)

    def _settle(self, position: int, info: NodeInfo | None) -> None:
        """Move a node from the topology domains of its old labels to those of its current labels."""
        bit = 1 << position
        for key, before in self._values.pop(position, {}).items():
            self._domains[key][before] &= ~bit
        if info is None or info.node is None:
            return
        labels, values = info.node.metadata.labels, self._values.setdefault(position, {})
        for key in self._keys:
            if (value := labels.get(key)) is not None:
                values[key] = value
                domain = self._domains.setdefault(key, {})
                domain[value] = domain.get(value, 0) | bit

    def _count_pods(self, position: int, pods: Iterable[PlacedPod], labels: Mapping[str, str]) -> Iterator[None]:
        question, refusers = self._question, self._table.refusers
        counts, is_near, refusing = [0] * len(question.counted), False, set[tuple[str, str]]()
        together = max(1, _AT_ONCE // (1 + len(question.near) + len(question.counted)))
        for number_of_pod, placed in enumerate([*pods]):
            pod = placed.pod
            is_near = is_near or (bool(question.near) and not placed.is_nominated and question.near_selects(pod))
            for number, (_, selects) in enumerate(question.counted):
                counts[number] += selects(pod)
            if pod.metadata.uid in refusers:
                refusing.update((key, labels[key]) for key in question.refuses(placed) if key in labels)
                yield
            elif not number_of_pod % together:
                yield
        self._note(position, counts, is_near, refusing)

    def _note(self, position: int, counts: Sequence[int], is_near: bool, refusing: set[tuple[str, str]]) -> None:
        """Replace the counts of a node."""
        self._near.discard(position)
        if is_near:
            self._near.add(position)
        for found, count in zip(self._counts, counts, strict=True):
            found.pop(position, None)
            if count:
                found[position] = count
        self._refusing.pop(position, None)
        if refusing:
            self._refusing[position] = refusing

    # Answers of a complete census

    def affinity(self) -> Iterator[NodeRefusal]:
        """Yield the same refusals as `Neighbours.affinity`."""
        affinity = self._question.pod.spec.affinity
        if affinity and affinity.podAffinity:
            yield NodeReason(NodeCode.POD_AFFINITY), self._unattracted()
        if affinity and affinity.podAntiAffinity:
            terms = affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
            bad = 0
            for term in terms:
                bad |= self._in_domains(term.topologyKey, self._by_domain(term))
            yield NodeReason(NodeCode.POD_ANTI_AFFINITY), bad
        if self._table.refusers:
            yield NodeReason(NodeCode.EXISTING_ANTI_AFFINITY), self._refused_by_others()

    def _unattracted(self) -> int:
        question, bad = self._question, 0
        domains = [{self._value(at, term.topologyKey) for at in self._near} - {None} for term in question.near]
        first_of_its_kind = not any(domains) and question.near_selects(question.pod)
        for term, values in zip(question.near, domains, strict=True):
            known = self._domains.get(term.topologyKey, {})
            bad |= self._table.everyone & ~self._in_domains(term.topologyKey, known if first_of_its_kind else values)
        return bad

    def _refused_by_others(self) -> int:
        refusing = set[tuple[str, str]]().union(*self._refusing.values())
        keys, bad = {key for key, _ in refusing}, 0
        for info in self._table if refusing else ():
            labels = info.node.metadata.labels if info.node is not None else {}
            if any((key, labels.get(key)) in refusing for key in keys):
                bad |= 1 << info.position
        return bad

    def spreading(self, nodes: int, eligible: EligibleNodes) -> Iterator[NodeRefusal]:
        """Yield the same refusals as `Neighbours.spreading`."""
        for constraint in self._question.pod.spec.topologySpreadConstraints:
            if constraint.whenUnsatisfiable == "DoNotSchedule":
                yield from self._unbalanced(constraint, nodes, eligible(constraint))

    def _unbalanced(self, constraint: TopologySpreadConstraint, nodes: int, eligible: int) -> Iterator[NodeRefusal]:
        key, allowed = constraint.topologyKey, constraint.maxSkew
        counts = self.spread_counts(constraint, eligible)
        fewest = min(counts.values(), default=0)
        if constraint.minDomains is not None and len(counts) < constraint.minDomains:
            fewest = 0
        itself, known = self._question.itself(constraint), self._domains.get(key, {})
        if without := nodes & ~self._in_domains(key, known):
            yield NodeReason(NodeCode.SPREAD_LABEL, key), without
        for value, domain in known.items():
            if domain & nodes and (skew := counts[value] + itself - fewest) > allowed:
                yield NodeReason(NodeCode.SPREAD, key, wanted=allowed, found=skew), domain & nodes

    def spread_counts(self, constraint: TopologySpreadConstraint, nodes: int) -> Counter[str]:
        """Return the number of matching pods in each topology domain of a set of nodes, by value of the label.

        Domains without matching pods are included with 0. Nodes without the label are left out.
        """
        key = constraint.topologyKey
        counts = Counter({value: 0 for value, domain in self._domains.get(key, {}).items() if domain & nodes})
        for position, count in self._counts_of(constraint).items():
            if nodes >> position & 1 and (value := self._value(position, key)) is not None:
                counts[value] += count
        return counts

    def preference(self, weighted: Iterable[tuple[int, PodAffinityTerm]], positions: Iterable[int]) -> dict[int, int]:
        """Return the sum of the weights of matching preferred terms, by node position.

        Empty if no placed pod matches a term.
        """
        total: dict[int, int] = {}
        for weight, term in weighted:
            if counts := self._by_domain(term):
                for position in positions:
                    count = counts.get(self._value(position, term.topologyKey) or "", 0)
                    total[position] = total.get(position, 0) + weight * count
        return total

    def _counts_of(self, rule: PodTerm) -> dict[int, int]:
        return next(
            found for (known, _), found in zip(self._question.counted, self._counts, strict=True) if known is rule
        )

    def _by_domain(self, term: PodAffinityTerm) -> Counter[str]:
        counts: Counter[str] = Counter()
        for position, count in self._counts_of(term).items():
            if (value := self._value(position, term.topologyKey)) is not None:
                counts[value] += count
        return counts

    def _value(self, position: int, key: str) -> str | None:
        return self._values.get(position, {}).get(key)

    def _in_domains(self, key: str, values: Iterable[str | None] | Mapping[str, int]) -> int:
        known, found = self._domains.get(key, {}), 0
        for value in values:
            found |= known.get(value or "", 0)
        return found
