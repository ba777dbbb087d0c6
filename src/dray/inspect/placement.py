"""What each node says to a pod: the scheduler's rules, claims that are bound elsewhere, and the allocator.

Uses the very rules of `dray.scheduler`, so that a verdict here is a verdict there. Left out: preferences among nodes that
fit, and rules that a foreign scheduler adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.allocator import Allocated, Failed, GaveUp, Index, Unallocatable
from dray.api.podclaims import holds_devices
from dray.api.selectors import node_selector_matches
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.inspect.explanation import NodeVerdict
from dray.inspect.snapshot import Snapshot
from dray.scheduler.demand import Candidate
from dray.scheduler.filters import NODE_FILTERS
from dray.scheduler.neighbours import Neighbours
from dray.scheduler.nodes import NodeTable


def judge(
    snapshot: Snapshot, pod: Pod | None, pending: Sequence[ResourceClaim], allocated: Sequence[ResourceClaim] = ()
) -> tuple[NodeVerdict, ...]:
    """What every node says to a pod with these claims; without a pod, only what its devices say."""
    refusals = _rules(snapshot, pod) if pod is not None else {}
    index = _index(snapshot)
    return tuple(
        _verdict(node, index, pending, refusals.get(node.metadata.name, ()), _elsewhere(node, allocated))
        for node in sorted(snapshot.all(Node), key=lambda node: node.metadata.name)
    )


def _verdict(
    node: Node, index: Index, pending: Sequence[ResourceClaim], rules: Sequence[str], elsewhere: Sequence[str]
) -> NodeVerdict:
    name = node.metadata.name
    error, reasons, served = "", None, True
    if pending:
        match index.allocate(name, pending):
            case Allocated():
                pass
            case Unallocatable() as outcome:
                served, reasons = False, outcome.explain()
            case Failed() as outcome:
                served, error = False, outcome.error
            case GaveUp() as outcome:
                served, error = False, outcome.progress
    fits = served and not rules and not elsewhere
    return NodeVerdict(name, fits, tuple(rules), tuple(elsewhere), error, reasons)


def _index(snapshot: Snapshot) -> Index:
    index = Index()
    for class_ in snapshot.classes.values():
        index.upsert_class(class_)
    for one in snapshot.slices:
        index.upsert_slice(one)
    for node in snapshot.all(Node):
        index.upsert_node(node)
    index.take(snapshot.holders)
    return index


def _elsewhere(node: Node, allocated: Iterable[ResourceClaim]) -> list[str]:
    """The claims whose devices cannot be reached from a node."""
    found = []
    for claim in allocated:
        selector = claim.status.allocation.nodeSelector if claim.status.allocation else None
        if selector is not None and not node_selector_matches(selector, node.metadata.labels, node.metadata.name):
            found.append(claim.metadata.name)
    return found


def _rules(snapshot: Snapshot, pod: Pod) -> dict[str, list[str]]:
    """For each node, the rules that keep the pod away, in the scheduler's words."""
    table = NodeTable()
    for position, node in enumerate(snapshot.all(Node)):
        table.upsert(node, position)
    for placed in snapshot.all(Pod):
        if holds_devices(placed) and placed.metadata.uid != pod.metadata.uid:
            table.place(placed, placed.spec.nodeName)
    candidate = Candidate(pod)
    found: dict[str, list[str]] = {}
    for rule in NODE_FILTERS:
        if rule.signature(candidate) is not None:
            accepts = rule.judge(candidate)
            for info in table:
                if not accepts(info):
                    found.setdefault(info.name, []).extend(rule.reasons(candidate, info))
    labels = {one.metadata.name: one.metadata.labels for one in snapshot.all(Namespace)}
    refused = Neighbours(table, lambda name: labels.get(name, {})).refused(candidate, table.everyone)
    for reason, nodes in refused.items():
        for info in table.named(nodes):
            found.setdefault(info.name, []).append(reason)
    return found
