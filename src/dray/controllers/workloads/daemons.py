"""Decides which nodes should have a pod of a DaemonSet, and which pods to create and delete. Pure.

A pod belongs to the node that it runs on, or, until it is scheduled, to the node that its affinity names. Left out:
pods on deleted nodes, which garbage collection handles, except those that were never scheduled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dray.api.podclaims import is_finished
from dray.api.selectors import node_selector_matches, untolerated
from dray.api.types.apps import DaemonSet, DaemonSetStatus
from dray.api.types.core import Node, NodeSelector, Pod, PodSpec, Toleration
from dray.api.wire import Tree
from dray.controllers.workloads.pods import creation_time, is_available, is_deleting, is_ready, pod_tree
from dray.controllers.workloads.revisions import template_hash
from dray.controllers.workloads.rollout import share

REVISION_HASH = "controller-revision-hash"
ON_DELETE = "OnDelete"
_NODE_FIELD = "metadata.name"
# Taints that daemon pods always tolerate, because they repair, watch or announce such nodes.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_TOLERATED_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class Fit(NamedTuple):
    """Whether a node should get a pod of a DaemonSet, and whether an existing pod may stay."""

    run: bool
    stay: bool


class DaemonView(NamedTuple):
    """A DaemonSet with its nodes and pods at one moment.

    `now` is in seconds since 1970.
    """

    daemon_set: DaemonSet
    current: str  # the hash of its template
    fits: Mapping[str, Fit]  # by node
    pods: Mapping[str, Sequence[Pod]]  # by node; on each node the scheduled and oldest pods first
    now: float

    @property
    def desired(self) -> list[str]:
        return [node for node, fit_ in self.fits.items() if fit_.run]

    def is_current(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(REVISION_HASH) == self.current

    def is_available(self, pod: Pod) -> bool:
        return not is_deleting(pod) and is_available(pod, self.daemon_set.spec.minReadySeconds, self.now)


class DaemonPlan(NamedTuple):
    """Nodes that need a pod, pods to delete, and ended pods to delete after their pause."""

    create: Sequence[str] = ()
    delete: Sequence[Pod] = ()
    ended: Sequence[Pod] = ()


def view(daemon_set: DaemonSet, nodes: Iterable[Node], pods: Iterable[Pod], now: float) -> DaemonView:
    template = daemon_set.spec.template
    current = template_hash(template, daemon_set.status.collisionCount or 0)
    fits = {node.metadata.name: fit(template.spec, node) for node in nodes}
    return DaemonView(daemon_set, current, fits, _by_node(pods), now)


def fit(spec: PodSpec, node: Node) -> Fit:
    """Return whether a template's pod may run on a node, by the node's name, labels and taints.

    The first value is whether a new pod may run there, the second whether a running pod may stay.
    """
    labels, name = node.metadata.labels, node.metadata.name
    if spec.nodeName and spec.nodeName != name:
        return Fit(False, False)
    if any(labels.get(label) != value for label, value in spec.nodeSelector.items()):
        return Fit(False, False)
    required = _required(spec)
    if required is not None and not node_selector_matches(required, labels, name):
        return Fit(False, False)
    tolerations = (*spec.tolerations, *_daemon_tolerations(spec))
    run = next(untolerated(node.spec.taints, tolerations), None) is None
    stay = next(untolerated(node.spec.taints, tolerations, ("NoExecute",)), None) is None
    return Fit(run, stay)


def daemon_tree(daemon_set: DaemonSet, current: str, node: str) -> Tree:
    """Return the pod to create for one node.

    `current` is the value of the revision label, `node` the name of the node.
    """
    tree = pod_tree(daemon_set, daemon_set.spec.template)
    tree["metadata"]["labels"] = {**tree["metadata"].get("labels", {}), REVISION_HASH: current}
    spec = tree["spec"]
    here = {"matchFields": [{"key": _NODE_FIELD, "operator": "In", "values": [node]}]}
    affinity = spec.setdefault("affinity", {})
    # The other terms are dropped, because `fit` has already checked them.
    required = {"nodeSelectorTerms": [here]}
    affinity.setdefault("nodeAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = required
    added = [
        {"key": toleration.key, "operator": "Exists", "effect": toleration.effect}
        for toleration in _daemon_tolerations(daemon_set.spec.template.spec)
        if toleration not in daemon_set.spec.template.spec.tolerations
    ]
    spec["tolerations"] = [*spec.get("tolerations", []), *added]
    return tree


def node_of(pod: Pod) -> str:
    """Return the name of the node that a daemon pod is meant for.

    For a pod that is not assigned yet this is the node in its required node affinity, or "" if there is none.
    """
    required = None if pod.spec.nodeName else _required(pod.spec)
    for term in required.nodeSelectorTerms if required is not None else ():
        for requirement in term.matchFields:
            if requirement.key == _NODE_FIELD and requirement.operator == "In" and requirement.values:
                return requirement.values[0]
    return pod.spec.nodeName


def _by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Return the pods by node. Ended pods that only wait for a finalizer are left out, so that they can be replaced.

    Of each node, pods that are assigned come first, then the oldest.
    """
    found: dict[str, list[Pod]] = {}
    pods = [pod for pod in pods if not (is_finished(pod) and is_deleting(pod))]
    for pod in sorted(pods, key=lambda pod: (not pod.spec.nodeName, creation_time(pod), pod.metadata.name)):
        found.setdefault(node_of(pod), []).append(pod)
    return found


def plan(seen: DaemonView) -> DaemonPlan:
    """Return the next step: first correct the placement, then continue the rolling update."""
    first = _placement(seen)
    if first.create or first.delete:
        return first
    return _update(seen)._replace(ended=first.ended)


def _placement(seen: DaemonView) -> DaemonPlan:
    """Return the changes that put one pod on each node that should have one, and none elsewhere."""
    delete: list[Pod] = []
    ended: list[Pod] = []
    for node, there in seen.pods.items():
        alive = [pod for pod in there if not is_deleting(pod)]
        if node not in seen.fits:
            delete += [pod for pod in alive if not pod.spec.nodeName]
        elif not seen.fits[node].stay:
            delete += alive
        else:
            ended += [pod for pod in alive if is_finished(pod)]
            delete += _surplus(seen, [pod for pod in alive if not is_finished(pod)])
    return DaemonPlan([node for node in seen.desired if node not in seen.pods], delete, ended)


def _surplus(seen: DaemonView, running: Sequence[Pod]) -> Sequence[Pod]:
    """Return a node's running pods but the first. In a surge, an old and a new pod stay until the new is available.

    `running` are the pods of one node.
    """
    if len(running) < 2 or not _surge(seen.daemon_set, 1):
        return running[1:]
    new = [pod for pod in running if seen.is_current(pod)]
    old = [pod for pod in running if not seen.is_current(pod)]
    replaced = bool(new and old) and (not is_ready(old[0]) or seen.is_available(new[0]))
    return [*new[1:], *(old if replaced else old[1:])]


def _update(seen: DaemonView) -> DaemonPlan:
    """Return the next step of a rolling update, or an empty plan with OnDelete."""
    if seen.daemon_set.spec.updateStrategy.type == ON_DELETE:
        return DaemonPlan()
    desired = seen.desired
    nodes = {node: seen.pods[node] for node in desired if node in seen.pods}
    if surge := _surge(seen.daemon_set, len(desired)):
        return _surge_step(seen, nodes, surge)
    return _replace_step(seen, nodes, max(1, _unavailable(seen.daemon_set, len(desired))))


def _replace_step(seen: DaemonView, nodes: Mapping[str, Sequence[Pod]], bearable: int) -> DaemonPlan:
    """Return old pods to delete: unavailable ones at once, available ones as far as `bearable` allows.

    `bearable` is the number of pods that may be unavailable at the same time. `nodes` are the pods by node.
    """
    broken: list[Pod] = []
    working: list[Pod] = []
    missing = 0
    for there in nodes.values():
        pod = there[0]
        works = seen.is_available(pod)
        missing += not works
        if not seen.is_current(pod) and not is_deleting(pod):
            (working if works else broken).append(pod)
    return DaemonPlan(delete=[*broken, *working[: max(0, bearable - missing)]])


def _surge_step(seen: DaemonView, nodes: Mapping[str, Sequence[Pod]], surge: int) -> DaemonPlan:
    """Return nodes that get a new pod beside the old: at once if the old is unavailable, else as maxSurge allows.

    `surge` is the number of nodes that may have two pods. `nodes` are the pods by node.
    """
    urgent: list[str] = []
    others: list[str] = []
    surging = 0
    for node, there in nodes.items():
        old = [pod for pod in there if not seen.is_current(pod)]
        if old and len(old) < len(there):
            surging += 1
        elif old:
            (others if seen.is_available(old[0]) else urgent).append(node)
    return DaemonPlan(create=[*urgent, *others[: max(0, surge - surging - len(urgent))]])


def status_of(seen: DaemonView) -> DaemonSetStatus:
    """Return the status of the DaemonSet. Of several pods on a node the first one counts."""
    desired, before = seen.desired, seen.daemon_set.status
    here = [seen.pods[node][0] for node in desired if node in seen.pods]
    ready = [pod for pod in here if is_ready(pod)]
    available = sum(map(seen.is_available, ready))
    return DaemonSetStatus(
        desiredNumberScheduled=len(desired),
        currentNumberScheduled=len(here),
        numberMisscheduled=sum(not fit_.run and node in seen.pods for node, fit_ in seen.fits.items()),
        numberReady=len(ready),
        numberAvailable=available,
        numberUnavailable=len(desired) - available,
        updatedNumberScheduled=sum(map(seen.is_current, here)),
        observedGeneration=seen.daemon_set.metadata.generation,
        collisionCount=before.collisionCount,
        conditions=before.conditions,
    )


def _surge(daemon_set: DaemonSet, desired: int) -> int:
    rolling = daemon_set.spec.updateStrategy.rollingUpdate
    return share(rolling.maxSurge, desired, up=True) if rolling is not None else 0


def _unavailable(daemon_set: DaemonSet, desired: int) -> int:
    rolling = daemon_set.spec.updateStrategy.rollingUpdate
    return share(rolling.maxUnavailable, desired, up=True) if rolling is not None else 0


def _required(spec: PodSpec) -> NodeSelector | None:
    affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
    return affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None


def _daemon_tolerations(spec: PodSpec) -> list[Toleration]:
    pairs = (*_TOLERATED, _TOLERATED_ON_HOST_NETWORK) if spec.hostNetwork else _TOLERATED
    return [Toleration(key=key, operator="Exists", effect=effect) for key, effect in pairs]
