"""Suggestions unrelated to devices: resources, labels, taints and other pods of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

from msgspec.structs import replace

from dray.api.podclaims import holds_devices
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.claim_use import ClaimElsewhere
from dray.api.reasons.causes.node_rules import (
    AskLess,
    LabelNode,
    NodeRules,
    NoHostPort,
    NoNodeSelector,
    NoPodAffinity,
    RemoveNodeTaint,
    SpreadLoosely,
    TolerateNode,
    Uncordon,
)
from dray.api.reasons.causes.on_node import MakePodAgain, NoNodeName
from dray.api.reasons.causes.scheduling import NoScheduler, RemoveGates, SchedulingGated, UseScheduler
from dray.api.reasons.nodes import NodeCode, NodeReason, NodeVerdict
from dray.api.reasons.suggestions import Suggestion
from dray.api.taints import taint_text
from dray.api.types.core import Node, Pod
from dray.api.wire import Tree, tree_of
from dray.inspect.changes import is_controlled, patched
from dray.inspect.pods import DEFAULT_SCHEDULER
from dray.inspect.suggesting.devices import ending
from dray.inspect.suggesting.requests import toleration
from dray.inspect.suggesting.subject import WaitingPod
from dray.verdicts.demand import demand_of

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODES = 8  # nodes considered
_TOGETHER = 2  # maximum number of pods deleted to free resources
_PODS = 6  # pods considered per node


def node_rules(subject: WaitingPod, cause: NodeRules | ClaimElsewhere) -> Iterator[Suggestion]:
    """Yield suggestions that would make a node accept the pod, among the nodes that have its devices."""
    verdicts = [v for v in subject.nodes if v.rules and (not cause.nodes or v.node in cause.nodes)]
    for verdict in sorted(verdicts, key=lambda v: len(v.rules))[:_NODES]:
        for reason in verdict.rules:
            yield from _for_reason(subject, verdict, reason)


def _for_reason(subject: WaitingPod, verdict: NodeVerdict, reason: NodeReason) -> Iterator[Suggestion]:
    """Yield suggestions for one reason why a node refuses the pod.

    Yields nothing if the node does not exist or nothing helps against the reason.
    """
    node = subject.snapshot.get(Node, verdict.node)
    if node is None:
        return
    match reason.code:
        case NodeCode.UNSCHEDULABLE:
            change = patched(node, {"spec": {"unschedulable": None}})
            yield Uncordon(verdict.node, changes=(change,))
        case NodeCode.TAINT:
            yield from _taint(subject, node, reason)
        case NodeCode.NODE_AFFINITY:
            yield from _affinity(subject, node)
        case NodeCode.PORTS:
            yield from _ports(subject)
            yield from _room(subject, node, 1)
        case NodeCode.TOO_MANY_PODS:
            yield from _room(subject, node, 1)
        case NodeCode.INSUFFICIENT:
            yield from _less(subject, verdict, reason)
            yield from _room(subject, node, _TOGETHER)
        case NodeCode.POD_AFFINITY | NodeCode.POD_ANTI_AFFINITY:
            kind = "podAffinity" if reason.code is NodeCode.POD_AFFINITY else "podAntiAffinity"
            changes = subject.again(lambda spec: _without_required(spec, kind))
            yield NoPodAffinity(subject.label, kind, changes=changes)
        case NodeCode.EXISTING_ANTI_AFFINITY:
            yield from _room(subject, node, 1)
        case NodeCode.SPREAD | NodeCode.SPREAD_LABEL:
            yield from _spread(subject)
        case _:
            return


def _taint(subject: WaitingPod, node: Node, reason: NodeReason) -> Iterator[Suggestion]:
    """Yield suggestions to tolerate or to remove a taint of a node.

    Yields nothing if the node no longer has the taint.
    """
    taint = next((t for t in node.spec.taints if (t.key, t.value) == (reason.subject, reason.value)), None)
    if taint is None:
        return
    text = taint_text(taint)
    tolerations = [*tree_of(subject.pod)["spec"].get("tolerations", ()), toleration(taint)]
    change = patched(subject.pod, {"spec": {"tolerations": tolerations}})
    name = node.metadata.name
    yield TolerateNode(f"pod {subject.name}", text, name, changes=(change,))
    left = [t for t in tree_of(node)["spec"].get("taints", ()) if (t["key"], t["effect"]) != (taint.key, taint.effect)]
    change = patched(node, {"spec": {"taints": left or None}})
    yield RemoveNodeTaint(text, name, changes=(change,))


def _affinity(subject: WaitingPod, node: Node) -> Iterator[Suggestion]:
    """Yield suggestions to add missing labels to the node, or to drop node selector or affinity from the pod.

    Labels are suggested only if none of the missing ones starts with `kubernetes.io/`.
    """
    wanted = subject.pod.spec.nodeSelector
    lacking = {key: value for key, value in wanted.items() if node.metadata.labels.get(key) != value}
    own = {key: value for key, value in lacking.items() if not key.startswith("kubernetes.io/")}
    if own and own == lacking:
        change = patched(node, {"metadata": {"labels": own}})
        labels = tuple(f"{key}={value}" for key, value in own.items())
        yield LabelNode(node.metadata.name, labels, changes=(change,))
    if lacking:
        changes = subject.again(lambda spec: _without_labels(spec, lacking))
        text = ", ".join(f"nodeSelector {key}={value}" for key, value in lacking.items())
        yield NoNodeSelector(subject.label, text, changes=changes)
    changes = subject.again(lambda spec: _without_required(spec, "nodeAffinity"))
    yield NoNodeSelector(subject.label, "the required nodeAffinity", changes=changes)


def _without_labels(spec: Tree, lacking: dict[str, str]) -> None:
    spec["nodeSelector"] = {key: value for key, value in spec["nodeSelector"].items() if key not in lacking}


def _without_required(spec: Tree, kind: str) -> None:
    """Remove required affinity rules of this kind from a pod spec, in place."""
    spec.get("affinity", {}).get(kind, {}).pop(_REQUIRED, None)


def _ports(subject: WaitingPod) -> Iterator[Suggestion]:
    """Yield the suggestion to drop the host ports of the pod."""
    ports = sorted(port for _, _, port in demand_of(subject.pod).ports)

    def change(spec: Tree) -> None:
        for container in spec["containers"]:
            for port in container.get("ports", ()):
                port.pop("hostPort", None)

    yield NoHostPort(subject.label, tuple(map(str, ports)), changes=subject.again(change))


def _less(subject: WaitingPod, verdict: NodeVerdict, reason: NodeReason) -> Iterator[Suggestion]:
    """Yield the suggestion to request only what the node has left of a resource.

    Only for pods with one container, and if the node has anything left.
    """
    left, name = reason.found or 0, reason.subject
    if left <= 0 or len(subject.pod.spec.containers) != 1:
        return
    text = f"{left}m" if name == "cpu" else str(left)

    def change(spec: Tree) -> None:
        for kind in ("requests", "limits"):
            amounts: dict[str, Any] = spec["containers"][0].get("resources", {}).get(kind, {})
            if name in amounts:
                amounts[name] = text

    yield AskLess(subject.label, name, text, verdict.node, changes=subject.again(change))


def _room(subject: WaitingPod, node: Node, most: int) -> Iterator[Suggestion]:
    """Yield suggestions to delete pods of the node that have no controller, smallest first.

    At most `most` pods are deleted together. Finished pods are left out.
    """
    there = [
        pod
        for pod in subject.snapshot.all(Pod)
        if pod.spec.nodeName == node.metadata.name and holds_devices(pod) and not is_controlled(pod)
    ]
    ordered = sorted(there, key=lambda pod: (sorted(demand_of(pod).amounts.items()), pod.metadata.name))
    for number in range(1, most + 1):
        for some in combinations(ordered[:_PODS], number):
            yield ending(some, node.metadata.name, subject.namespace)


def _spread(subject: WaitingPod) -> Iterator[Suggestion]:
    """Yield suggestions to make topology spread constraints soft."""
    for one in subject.pod.spec.topologySpreadConstraints:
        key = one.topologyKey

        def change(spec: Tree, key: str = key) -> None:
            for constraint in spec["topologySpreadConstraints"]:
                if constraint["topologyKey"] == key:
                    constraint["whenUnsatisfiable"] = "ScheduleAnyway"

        yield SpreadLoosely(subject.label, key, changes=subject.again(change))


# Reasons in the pod itself


def gated(subject: WaitingPod, cause: SchedulingGated) -> Iterator[Suggestion]:
    """Yield the suggestion to remove the scheduling gates of the pod."""
    change = patched(subject.pod, {"spec": {"schedulingGates": None}})
    yield RemoveGates(f"pod {subject.name}", cause.gates, changes=(change,))


def no_scheduler(subject: WaitingPod, cause: NoScheduler) -> Iterator[Suggestion]:
    """Yield suggestions to use a scheduler that evidently runs, because it has tried other pods.

    Yields nothing if the pod names the default scheduler, which is suggested first otherwise.
    """
    if cause.scheduler == DEFAULT_SCHEDULER:
        return
    running = {pod.spec.schedulerName for pod in subject.snapshot.all(Pod) if _was_tried(pod)}
    for name in sorted(running - {cause.scheduler}, key=lambda name: (name != DEFAULT_SCHEDULER, name)):
        changes = subject.again(partial(_with_scheduler, name=name))
        yield UseScheduler(subject.label, cause.scheduler, name, changes=changes)


def _with_scheduler(spec: Tree, name: str) -> None:
    spec["schedulerName"] = name


def _was_tried(pod: Pod) -> bool:
    """Whether a scheduler has already tried the pod."""
    return any(condition.type == "PodScheduled" for condition in pod.status.conditions)


def by_scheduler(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """Yield the suggestion to create the pod again without the node name in its spec."""
    yield NoNodeName(subject.label, changes=subject.again(lambda spec: None))


def pod_again(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """Yield the suggestion to delete the pod from a dead node by force and create it again."""
    changes = tuple(replace(change, force=True) for change in subject.again(lambda spec: None))
    yield MakePodAgain(subject.label, changes=changes)
