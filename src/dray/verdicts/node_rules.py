"""Rules that look at one node at a time: whether it accepts a pod, and if not, why.

A rule depends only on a pod's *signature*, so its result can be cached for all pods with the same signature. Rules
that span nodes (InterPodAffinity, PodTopologySpread) are in `neighbours`, and DynamicResources is in `devices`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

from dray.api.host_ports import collisions
from dray.api.reasons.nodes import NodeCode, NodeReason, SchedulingRule
from dray.api.selectors import node_selector_matches, tolerates, untolerated
from dray.api.types.core import NodeSelector, Taint
from dray.verdicts.demand import Candidate
from dray.verdicts.nodes import NodeInfo

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

NodePredicate = Callable[[NodeInfo], bool]
NodeRefusal = tuple[NodeReason, int]  # a reason, and the set of nodes for which it holds


class NodeRule(Protocol):
    """A rule about one node at a time."""

    name: SchedulingRule
    by_usage: bool  # whether the result depends on the pods on the node, not only on the node object

    def signature(self, pod: Candidate) -> Hashable | None:
        """Return the part of the pod that the result depends on, or None if every node is acceptable."""

    def judge(self, pod: Candidate) -> NodePredicate:
        """Return a function that says whether a node accepts pods with this signature (True: the node accepts them)."""

    def reasons(self, pod: Candidate, info: NodeInfo) -> Iterable[NodeReason]:
        """Return why a node refuses the pod. Called only for nodes that refuse it."""


class NodeUnschedulable:
    name = SchedulingRule.NODE_UNSCHEDULABLE
    by_usage = False

    def signature(self, pod: Candidate) -> Hashable | None:
        return any(tolerates(t, UNSCHEDULABLE) for t in pod.spec.tolerations)

    def judge(self, pod: Candidate) -> NodePredicate:
        tolerated = self.signature(pod)
        return lambda info: bool(tolerated) or not (info.node and info.node.spec.unschedulable)

    def reasons(self, pod: Candidate, info: NodeInfo) -> Iterable[NodeReason]:
        yield NodeReason(NodeCode.UNSCHEDULABLE)


class NodeName:
    name = SchedulingRule.NODE_NAME
    by_usage = False

    def signature(self, pod: Candidate) -> Hashable | None:
        return pod.spec.nodeName or None

    def judge(self, pod: Candidate) -> NodePredicate:
        wanted = pod.spec.nodeName
        return lambda info: info.name == wanted

    def reasons(self, pod: Candidate, info: NodeInfo) -> Iterable[NodeReason]:
        yield NodeReason(NodeCode.OTHER_NAME, pod.spec.nodeName)


class TaintToleration:
    name = SchedulingRule.TAINT_TOLERATION
    by_usage = False

    def signature(self, pod: Candidate) -> Hashable | None:
        return pod.spec.tolerations

    def judge(self, pod: Candidate) -> NodePredicate:
        return lambda info: self._first(pod, info) is None

    def reasons(self, pod: Candidate, info: NodeInfo) -> Iterable[NodeReason]:
        taint = self._first(pod, info)
        if taint is not None:
            yield NodeReason(NodeCode.TAINT, taint.key, taint.value)

    def _first(self, pod: Candidate, info: NodeInfo) -> Taint | None:
        taints = info.node.spec.taints if info.node else ()
        return next(untolerated(taints, pod.spec.tolerations), None) if taints else None


class NodeAffinityRule:
    name = SchedulingRule.NODE_AFFINITY
    by_usage = False

    def signature(self, pod: Candidate) -> Hashable | None:
        required = _required_nodes(pod)
        if not pod.spec.nodeSelector and required is None:
            return None
        return tuple(sorted(pod.spec.nodeSelector.items())), required

    def judge(self, pod: Candidate) -> NodePredicate:
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

    def reasons(self, pod: Candidate, info: NodeInfo) -> Iterable[NodeReason]:
        yield NodeReason(NodeCode.NODE_AFFINITY)


class NodePorts:
    name = SchedulingRule.NODE_PORTS
    by_usage = True

    def signature(self, pod: Candidate) -> Hashable | None:
        return pod.demand.ports or None

    def judge(self, pod: Candidate) -> NodePredicate:
        wanted = pod.demand.ports
        return lambda info: not any(collisions(wanted, info.ports))

    def reasons(self, pod: Candidate, info: NodeInfo) -> Iterable[NodeReason]:
        yield NodeReason(NodeCode.PORTS)


class NodeResourcesFit:
    name = SchedulingRule.NODE_RESOURCES_FIT
    by_usage = True

    def signature(self, pod: Candidate) -> Hashable | None:
        return pod.demand.signature, frozenset(pod.extended)

    def judge(self, pod: Candidate) -> NodePredicate:
        amounts, extended = pod.demand.amounts.items(), frozenset(pod.extended)

        def accepts(info: NodeInfo) -> bool:
            if info.free_pods < 1:
                return False
            taken, allocatable = info.taken, info.allocatable
            for name, wanted in amounts:  # no generator, which costs more: this is asked for every pod
                if wanted > allocatable.get(name, 0) - taken.get(name, 0) and not (
                    name in extended and not allocatable.get(name)
                ):
                    return False
            return True

        return accepts

    def reasons(self, pod: Candidate, info: NodeInfo) -> Iterable[NodeReason]:
        if info.free_pods < 1:
            yield NodeReason(NodeCode.TOO_MANY_PODS, wanted=1, found=info.free_pods)
        for name, wanted in pod.demand.amounts.items():
            by_devices = name in pod.extended and not info.allocatable.get(name)
            if wanted > (free := info.free(name)) and not by_devices:
                yield NodeReason(NodeCode.INSUFFICIENT, name, wanted=wanted, found=free)


def _required_nodes(pod: Candidate) -> NodeSelector | None:
    affinity = pod.spec.affinity
    if affinity is None or affinity.nodeAffinity is None:
        return None
    return affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution


TAINT_TOLERATION = TaintToleration()
NODE_AFFINITY = NodeAffinityRule()
NODE_RULES: tuple[NodeRule, ...] = (
    NodeUnschedulable(),
    NodeName(),
    TAINT_TOLERATION,
    NODE_AFFINITY,
    NodePorts(),
    NodeResourcesFit(),
)
