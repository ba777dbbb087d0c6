"""Which nodes a pod may run on, by the rules that concern one node at a time.

A filter judges a pod's *signature*, the part of the pod it looks at, so that the set of nodes that accept it is kept
and only nodes that changed are judged again. Rules that span nodes (affinity between pods, spreading) are in
`neighbours`; devices are in `devices`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from dray.api.selectors import node_selector_matches, tolerates, untolerated
from dray.api.types.core import NodeSelector, Taint
from dray.scheduler.demand import Candidate, ports_collide
from dray.scheduler.nodes import NodeInfo, NodeTable

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
KEPT_SETS = 512  # sets of nodes that are kept up to date, one a filter and signature

Judge = Callable[[NodeInfo], bool]


class Filter(Protocol):
    """A rule about one node at a time."""

    name: str
    by_usage: bool  # whether pods coming and going change the verdict, or only the node object

    def signature(self, pod: Candidate) -> Hashable | None:
        """What of the spec the verdict depends on; None when the pod does not care."""

    def judge(self, pod: Candidate) -> Judge:
        """Whether a node accepts a pod of this signature."""

    def reasons(self, pod: Candidate, info: NodeInfo) -> list[str]:
        """Why a node refused, in Kubernetes' words."""


class NodeUnschedulable:
    name = "NodeUnschedulable"
    by_usage = False

    def signature(self, pod: Candidate) -> Hashable | None:
        return any(tolerates(t, UNSCHEDULABLE) for t in pod.spec.tolerations)

    def judge(self, pod: Candidate) -> Judge:
        tolerated = self.signature(pod)
        return lambda info: bool(tolerated) or not (info.node and info.node.spec.unschedulable)

    def reasons(self, pod: Candidate, info: NodeInfo) -> list[str]:
        return ["node(s) were unschedulable"]


class NodeName:
    name = "NodeName"
    by_usage = False

    def signature(self, pod: Candidate) -> Hashable | None:
        return pod.spec.nodeName or None

    def judge(self, pod: Candidate) -> Judge:
        wanted = pod.spec.nodeName
        return lambda info: info.name == wanted

    def reasons(self, pod: Candidate, info: NodeInfo) -> list[str]:
        return ["node(s) didn't match the requested node name"]


class TaintToleration:
    name = "TaintToleration"
    by_usage = False

    def signature(self, pod: Candidate) -> Hashable | None:
        return pod.spec.tolerations

    def judge(self, pod: Candidate) -> Judge:
        return lambda info: self._first(pod, info) is None

    def reasons(self, pod: Candidate, info: NodeInfo) -> list[str]:
        taint = self._first(pod, info)
        return [f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"] if taint else []

    def _first(self, pod: Candidate, info: NodeInfo) -> Taint | None:
        taints = info.node.spec.taints if info.node else ()
        return next(untolerated(taints, pod.spec.tolerations), None) if taints else None


class NodeAffinity:
    name = "NodeAffinity"
    by_usage = False

    def signature(self, pod: Candidate) -> Hashable | None:
        required = _required_nodes(pod)
        if not pod.spec.nodeSelector and required is None:
            return None
        return tuple(sorted(pod.spec.nodeSelector.items())), required

    def judge(self, pod: Candidate) -> Judge:
        wanted = pod.spec.nodeSelector.items()
        required = _required_nodes(pod)

        def accepts(info: NodeInfo) -> bool:
            node = info.node
            return (
                node is not None
                and wanted <= node.metadata.labels.items()
                and (required is None or node_selector_matches(required, node.metadata.labels, node.metadata.name))
            )

        return accepts

    def reasons(self, pod: Candidate, info: NodeInfo) -> list[str]:
        return ["node(s) didn't match Pod's node affinity/selector"]


class NodePorts:
    name = "NodePorts"
    by_usage = True

    def signature(self, pod: Candidate) -> Hashable | None:
        return pod.demand.ports or None

    def judge(self, pod: Candidate) -> Judge:
        wanted = pod.demand.ports
        return lambda info: not ports_collide(wanted, info.ports)

    def reasons(self, pod: Candidate, info: NodeInfo) -> list[str]:
        return ["node(s) didn't have free ports for the requested pod ports"]


class NodeResourcesFit:
    name = "NodeResourcesFit"
    by_usage = True

    def signature(self, pod: Candidate) -> Hashable | None:
        return pod.demand.signature

    def judge(self, pod: Candidate) -> Judge:
        demand = pod.demand
        return lambda info: not info.lacks(demand)

    def reasons(self, pod: Candidate, info: NodeInfo) -> list[str]:
        return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in info.lacks(pod.demand)]


def _required_nodes(pod: Candidate) -> NodeSelector | None:
    affinity = pod.spec.affinity
    if affinity is None or affinity.nodeAffinity is None:
        return None
    return affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution


TAINT_TOLERATION = TaintToleration()
NODE_AFFINITY = NodeAffinity()
NODE_FILTERS: tuple[Filter, ...] = (
    NodeUnschedulable(),
    NodeName(),
    TAINT_TOLERATION,
    NODE_AFFINITY,
    NodePorts(),
    NodeResourcesFit(),
)


@dataclass(slots=True)
class _KeptSet:
    judge: Judge
    nodes: int = 0
    seen_objects: int = -1
    seen_usage: int = -1


class KeptSets:
    """For each filter and signature, the set of nodes that accept; only what changed is judged again."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._sets: OrderedDict[Hashable, _KeptSet] = OrderedDict()

    def accepting(self, filter_: Filter, pod: Candidate) -> int:
        name, known = filter_.name, pod.signatures
        key = known[name] if name in known else known.setdefault(name, _key(filter_, pod))
        if key is None:
            return self._table.everyone
        kept = self._sets.get(key)
        if kept is None:
            kept = self._sets[key] = _KeptSet(filter_.judge(pod))
            if len(self._sets) > KEPT_SETS:
                self._sets.popitem(last=False)
        else:
            self._sets.move_to_end(key)
        self._catch_up(kept, filter_.by_usage)
        return kept.nodes & self._table.everyone

    def _catch_up(self, kept: _KeptSet, by_usage: bool) -> None:
        table = self._table
        objects, usage = table.object_changes, table.usage_changes
        if kept.seen_objects == objects.end and (not by_usage or kept.seen_usage == usage.end):
            return
        changed = objects.since(kept.seen_objects)
        if by_usage and changed is not None:
            more = usage.since(kept.seen_usage)
            changed = None if more is None else changed | more
        positions = range(len(table.infos)) if changed is None else changed
        for position in positions:
            bit = 1 << position
            info = table.infos[position]
            if info is not None and kept.judge(info):
                kept.nodes |= bit
            else:
                kept.nodes &= ~bit
        kept.seen_objects, kept.seen_usage = objects.end, usage.end


def _key(filter_: Filter, pod: Candidate) -> Hashable | None:
    """A filter and what it looks at. Frozen wire objects may hold dicts; their encoding stands in for them."""
    signature = filter_.signature(pod)
    if signature is None:
        return None
    try:
        hash(signature)
    except TypeError:
        signature = msgspec.json.encode(signature)
    return filter_.name, signature
