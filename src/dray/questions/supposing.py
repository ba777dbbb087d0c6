"""What-if questions: would these pods fit, where, and how many copies of them, after assumed changes.

The answer is what the scheduler would do. It is computed in a trial that leaves the cluster unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from dray.api.gates import FeatureGates
from dray.api.types.core import Pod, ResourceQuota
from dray.api.wire import Tree, Wire
from dray.inspect.snapshot import Snapshot
from dray.sim import changes
from dray.sim import what_if as trials
from dray.sim.cluster import Cluster
from dray.sim.demands import PodBatch
from dray.sim.what_if import HowMany, PodOutcome, outcomes, place, preempting


class DrainNode(msgspec.Struct, frozen=True, tag="drain"):
    """Assume that a node is cordoned and its pods are recreated."""

    node: str


class AddTaint(msgspec.Struct, frozen=True, tag="taint"):
    """Assume a taint (KEY[=VALUE]:NoSchedule) on a node, or on devices given as DRIVER/POOL or DRIVER/POOL/DEVICE."""

    target: str
    taint: str


class AddNodes(msgspec.Struct, frozen=True, tag="add-nodes"):
    """Assume more nodes like an existing one, each with its own devices and daemons."""

    like: str
    count: int = 1


SupposedChange = DrainNode | AddTaint | AddNodes


class WhatIfAnswer(msgspec.Struct, frozen=True):
    """Outcome for pods after assumed changes.

    `pods` are the pods of the manifest, `moved` those of drained nodes. `quotas` are namespaces with quotas that
    might reject
    the manifest, which are not checked; None without a manifest. `preempted` maps each preempted pod to its
    preemptor.
    """

    pods: tuple[PodOutcome, ...] = ()
    moved: tuple[PodOutcome, ...] = ()
    copies: HowMany | None = None
    quotas: tuple[str, ...] | None = None
    preempted: dict[str, str] = {}

    @property
    def fits(self) -> bool:
        """Whether every pod got a node."""
        return all(one.node for one in (*self.moved, *self.pods))


def cluster_of(objects: Snapshot | Iterable[Wire], gates: FeatureGates | None = None) -> Cluster:
    """Create a simulated cluster of these objects and try to place its waiting pods."""
    if isinstance(objects, Snapshot):
        objects = [one for found in objects.objects.values() for one in found]
    cluster = Cluster(objects, gates=gates)
    cluster.settle()
    return cluster


def suppose(cluster: Cluster, change: SupposedChange) -> list[Pod]:
    """Apply an assumed change to the cluster. Returns the pods that must move.

    Raises ChangeError if the change is invalid.
    """
    match change:
        case DrainNode(node):
            return changes.drain(cluster, node)
        case AddTaint(target, taint):
            changes.taint(cluster, target, taint)
        case AddNodes(like, count):
            changes.add_nodes(cluster, count, like)
    return []


def what_if(
    cluster: Cluster,
    demand: PodBatch | None = None,
    supposed: Iterable[SupposedChange] = (),
    *,
    at_most: int = 0,
    is_late: Callable[[], bool] = lambda: False,
) -> WhatIfAnswer:
    """Return the outcome for the pods of a manifest, and for pods moved by assumed changes.

    With `at_most`, also counts how many copies of the manifest fit; counting stops early when `is_late` returns true.
    Raises ChangeError if a change is invalid.
    """
    with cluster.fork() as trial:
        with preempting(trial) as preempted_first:
            moved = [pod for change in supposed for pod in suppose(trial, change)]
            trial.settle()
        became = outcomes(trial, moved)
        if demand is None:
            return WhatIfAnswer(moved=became, preempted=preempted_first)
        copies = trials.how_many(trial, demand, at_most, is_late) if at_most else None
        limited = {quota.metadata.namespace for quota in trial.all(ResourceQuota)}
        quotas = sorted(limited & {pod.metadata.namespace for pod in demand.pods})
        with preempting(trial) as preempted:
            placed = place(trial, demand)
        return WhatIfAnswer(placed, became, copies, tuple(quotas), preempted_first | preempted)


def fits(cluster: Cluster, demand: PodBatch, supposed: Iterable[SupposedChange] = ()) -> bool:
    """Whether every pod of a manifest would get a node after assumed changes.

    Raises ChangeError if a change is invalid.
    """
    return what_if(cluster, demand, supposed).fits


def how_many(
    cluster: Cluster, demand: PodBatch, supposed: Iterable[SupposedChange] = (), *, at_most: int = 1000
) -> HowMany:
    """Count how many copies of a manifest fit, up to a limit, with the first pod that does not fit.

    Raises ChangeError if a change is invalid.
    """
    copies = what_if(cluster, demand, supposed, at_most=at_most).copies
    assert copies is not None  # it was asked for
    return copies


def became_of(cluster: Cluster, pod: Pod) -> WhatIfAnswer:
    """Return the outcome for a pod of the cluster."""
    return WhatIfAnswer(outcomes(cluster, [pod]), quotas=())


# Answers as JSON


def answer_tree(answer: WhatIfAnswer) -> Tree:
    """Convert an answer to JSON data for `-o json` and the dashboard."""
    tree: Tree = {
        "fits": answer.fits,
        "pods": [_outcome(one) for one in answer.pods],
        "moved": [_outcome(one) for one in answer.moved],
        "preempted": [{"pod": pod, "by": by} for pod, by in answer.preempted.items()],
    }
    if answer.quotas is not None:
        tree["quotas"] = list(answer.quotas)
    if (count := answer.copies) is not None:
        tree["howMany"] = {"copies": count.copies, "complete": count.end is not None}
        if count.end is not None:
            tree["howMany"]["endedBy"] = _outcome(count.end)
    return tree


def _outcome(one: PodOutcome) -> Tree:
    if one.node:
        devices = [{"claim": use.claim, "request": use.request, "device": str(use.device)} for use in one.devices]
        return {"pod": one.pod, "node": one.node, "devices": devices}
    reasons = [
        {"rule": reason.rule, "code": reason.code, "subject": reason.subject, "nodes": nodes.bit_count()}
        for reason, nodes in (one.why.reasons if one.why else {}).items()
    ]
    return {"pod": one.pod, "node": None, "reasons": reasons, "message": one.words}
