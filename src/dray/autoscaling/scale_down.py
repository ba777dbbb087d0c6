"""Which nodes can go: those of groups whose pods all find a place elsewhere, the dearest first.

A node stays where its group has no more than its minimum, where a pod may not be moved (a budget, an annotation, no
controller that would make it again), where a claim holds devices of it that no pod of it would give back, or where a pod
finds no place. Daemons go with their node. Removals add up: a place that one node's pods took is not there for the next.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator

import msgspec
from msgspec.structs import replace

from dray.api.naming import name_of
from dray.api.reasons.autoscaling import Stays
from dray.api.selectors import label_selector
from dray.api.types.core import Node, Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.autoscaling.groups import NodeGroup, NodeGroups
from dray.autoscaling.planner import sizes_of
from dray.sim import changes
from dray.sim.cluster import Cluster
from dray.sim.copies import is_daemon
from dray.sim.what_if import outcomes

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SECONDS = 5.0


class Moved(msgspec.Struct, frozen=True):
    """A pod of a node that goes, and where it would go."""

    pod: str
    node: str


class Removal(msgspec.Struct, frozen=True):
    """A node that can go."""

    node: str
    group: str
    moved: tuple[Moved, ...] = ()


class KeptNode(msgspec.Struct, frozen=True):
    """A node that cannot go, and why: `subject` is the pod, budget, claim or group in question."""

    node: str
    group: str
    code: Stays
    subject: str = ""


class ScaleDown(msgspec.Struct, frozen=True):
    """What can be removed, and what cannot; `complete` is False where time ran out before all nodes were tried."""

    removals: tuple[Removal, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    complete: bool = True


def scale_down(
    cluster: Cluster, groups: NodeGroups, *, untouched: Collection[str] = (), seconds: float = SECONDS
) -> ScaleDown:
    """The nodes of a cluster that can be removed one after the other, `untouched` ones left out. It stays as it is."""
    deadline = time.monotonic() + seconds
    removals: list[Removal] = []
    kept: list[KeptNode] = []
    complete = True
    with cluster.fork() as trial:
        trial.settle()
        sizes = sizes_of(trial, groups)
        for node, group in _candidates(trial, groups):
            if node.metadata.name in untouched:
                continue
            if time.monotonic() > deadline:
                complete = False
                break
            found = _judged(trial, node, group, sizes[group.name])
            if isinstance(found, KeptNode):
                kept.append(found)
            else:
                removals.append(found)
                sizes[group.name] -= 1
    return ScaleDown(tuple(removals), tuple(kept), complete)


def _candidates(cluster: Cluster, groups: NodeGroups) -> list[tuple[Node, NodeGroup]]:
    """The dearest nodes first, of these the ones with the fewest pods, then the youngest names."""
    found = [(node, group) for node in cluster.all(Node) if (group := groups.of(node)) is not None]
    found.sort(key=lambda one: one[0].metadata.name, reverse=True)
    return sorted(found, key=lambda one: (-one[1].price, len(_movable(cluster, one[0]))))


def _movable(cluster: Cluster, node: Node) -> list[Pod]:
    return [pod for pod in cluster.pods_on(node.metadata.name) if not is_daemon(pod)]


def _judged(trial: Cluster, node: Node, group: NodeGroup, size: int) -> Removal | KeptNode:
    """Whether a node can go; if so, it is gone in the trial."""
    name = node.metadata.name
    if size <= group.min:
        return KeptNode(name, group.name, Stays.MINIMUM, group.name)
    budgets: dict[str, PodDisruptionBudget] = {}
    for pod in _movable(trial, node):
        obstacle = _obstacle(trial, pod, budgets)
        if obstacle is not None:
            return KeptNode(name, group.name, *obstacle)
    with trial.fork() as attempt:
        moved = _drained(attempt, name)
        stuck = next((one for one in moved if not one.node), None)
        held = next(_held(attempt, name), None)
    if stuck is not None:
        return KeptNode(name, group.name, Stays.NO_PLACE, stuck.pod)
    if held is not None:
        return KeptNode(name, group.name, Stays.HELD, held)
    _drained(trial, name)
    trial.add(*budgets.values())
    trial.remove(Node, name)
    return Removal(name, group.name, tuple(moved))


def _obstacle(trial: Cluster, pod: Pod, budgets: dict[str, PodDisruptionBudget]) -> tuple[Stays, str] | None:
    """Why a pod may not be moved. `budgets` are those that moving pods has changed already."""
    if pod.metadata.annotations.get(SAFE_TO_EVICT) == "false":
        return Stays.NOT_TO_BE_EVICTED, name_of(pod)
    if not any(owner.controller for owner in pod.metadata.ownerReferences):
        return Stays.NO_CONTROLLER, name_of(pod)
    for budget in trial.all(PodDisruptionBudget):
        if not _covers(budget, pod):
            continue
        key = name_of(budget)
        now = budgets.get(key, budget)
        if now.status.disruptionsAllowed < 1:
            return Stays.BUDGET, key
        left = replace(now.status, disruptionsAllowed=now.status.disruptionsAllowed - 1)
        budgets[key] = replace(now, status=left)
    return None


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    if budget.metadata.namespace != pod.metadata.namespace or budget.spec.selector is None:
        return False
    return label_selector(budget.spec.selector).matches(pod.metadata.labels)


def _drained(trial: Cluster, node: str) -> list[Moved]:
    pods = changes.drain(trial, node)
    trial.settle()
    return [Moved(one.pod, one.node) for one in outcomes(trial, pods)]


def _held(trial: Cluster, node: str) -> Iterator[str]:
    """The claims that hold devices of a node after its pods are gone, those of its daemons aside."""
    pools = {(one.spec.driver, one.spec.pool.name) for one in trial.all(ResourceSlice) if one.spec.nodeName == node}
    daemons = {pod.metadata.uid for pod in trial.pods_on(node)}
    for claim in trial.all(ResourceClaim) if pools else ():
        allocation = claim.status.allocation
        if allocation is None or {reference.uid for reference in claim.status.reservedFor} & daemons:
            continue
        if any((one.driver, one.pool) in pools for one in allocation.devices.results):
            yield name_of(claim)
