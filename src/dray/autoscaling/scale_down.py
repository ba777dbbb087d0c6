"""Nodes that can be removed: nodes of groups whose pods all fit elsewhere, most expensive first.

A node stays if its group is at its minimum, if a pod may not be moved (disruption budget, annotation, no controller),
if a claim holds its devices that none of its pods would release, or if a pod fits nowhere else. Daemons are removed
with the node. Removals accumulate: a place taken by one node's pods is not available for the next.
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
    """A pod of a removed node, with its new node."""

    pod: str
    node: str


class Removal(msgspec.Struct, frozen=True):
    """A node that can be removed, with the pods that move."""

    node: str
    group: str
    moved: tuple[Moved, ...] = ()


class KeptNode(msgspec.Struct, frozen=True):
    """A node that cannot be removed and why. `subject` names the pod, budget, claim or group in question."""

    node: str
    group: str
    code: Stays
    subject: str = ""


class ScaleDown(msgspec.Struct, frozen=True):
    """Nodes that can and cannot be removed. `complete` is False if time ran out before all nodes were tried."""

    removals: tuple[Removal, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    complete: bool = True


def scale_down(
    cluster: Cluster, groups: NodeGroups, *, untouched: Collection[str] = (), seconds: float = SECONDS
) -> ScaleDown:
    """Return the nodes of a cluster that can be removed one after the other. The cluster is not changed.

    Nodes in `untouched` are skipped.
    """
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
    """Return the nodes of groups, highest price first, then fewest pods, then last names first."""
    found = [(node, group) for node in cluster.all(Node) if (group := groups.of(node)) is not None]
    found.sort(key=lambda one: one[0].metadata.name, reverse=True)
    return sorted(found, key=lambda one: (-one[1].price, len(_movable(cluster, one[0]))))


def _movable(cluster: Cluster, node: Node) -> list[Pod]:
    """Return the pods of a node except daemons."""
    return [pod for pod in cluster.pods_on(node.metadata.name) if not is_daemon(pod)]


def _judged(trial: Cluster, node: Node, group: NodeGroup, size: int) -> Removal | KeptNode:
    """Try to remove a node. If possible, the node is removed from the trial."""
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
    """Return why a pod may not be moved, with the name of the pod or budget, or None if it may be moved.

    `budgets` collects the budgets changed by earlier moves and by this one.
    """
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
    """Drain a node and place its pods. Returns their new nodes, empty for pods without a place.

    The pods remain moved in the trial.
    """
    pods = changes.drain(trial, node)
    trial.settle()
    return [Moved(one.pod, one.node) for one in outcomes(trial, pods)]


def _held(trial: Cluster, node: str) -> Iterator[str]:
    """Yield claims that still hold devices of a node after its pods have left, except claims of daemons.

    Claims are named namespace/name.
    """
    pools = {(one.spec.driver, one.spec.pool.name) for one in trial.all(ResourceSlice) if one.spec.nodeName == node}
    daemons = {pod.metadata.uid for pod in trial.pods_on(node)}
    for claim in trial.all(ResourceClaim) if pools else ():
        allocation = claim.status.allocation
        if allocation is None or {reference.uid for reference in claim.status.reservedFor} & daemons:
            continue
        if any((one.driver, one.pool) in pools for one in allocation.devices.results):
            yield name_of(claim)
