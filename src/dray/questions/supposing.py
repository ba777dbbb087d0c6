"""What if: would these pods fit, where, and how many more of them, after changes that are only supposed.

The answer is what the scheduler would do. It is found in a trial, so the cluster stays as it is.
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
    """A node is closed, and its pods come again."""

    node: str


class AddTaint(msgspec.Struct, frozen=True, tag="taint"):
    """A taint (KEY[=VALUE]:NoSchedule) on a node, or on devices: DRIVER/POOL or DRIVER/POOL/DEVICE."""

    target: str
    taint: str


class AddNodes(msgspec.Struct, frozen=True, tag="add-nodes"):
    """More nodes like one that there is, each with devices and daemons of its own."""

    like: str
    count: int = 1


SupposedChange = DrainNode | AddTaint | AddNodes


class WhatIfAnswer(msgspec.Struct, frozen=True):
    """What would become of pods.

    `pods` are those of the manifest, `moved` those of drained nodes. `quotas` are namespaces whose quotas might refuse the
    manifest, which nobody counted; None where nothing new is asked for. `preempted` are pods that would end, each with the pod that
    takes its place.
    """

    pods: tuple[PodOutcome, ...] = ()
    moved: tuple[PodOutcome, ...] = ()
    copies: HowMany | None = None
    quotas: tuple[str, ...] | None = None
    preempted: dict[str, str] = {}

    @property
    def fits(self) -> bool:
        """Whether every pod found a place."""
        return all(one.node for one in (*self.moved, *self.pods))


def cluster_of(objects: Snapshot | Iterable[Wire], gates: FeatureGates | None = None) -> Cluster:
    """A simulated cluster of these objects, in which the pods that wait have been tried."""
    if isinstance(objects, Snapshot):
        objects = [one for found in objects.objects.values() for one in found]
    cluster = Cluster(objects, gates=gates)
    cluster.settle()
    return cluster


def suppose(cluster: Cluster, change: SupposedChange) -> list[Pod]:
    """Make a change. Returns the pods that have to move. Raises ChangeError."""
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
    """What would become of the pods of a manifest, and of those that changes move.

    With `at_most`, copies of the manifest are counted, too; counting ends, incomplete, when it is late. Raises ChangeError.
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
    """Whether every pod of a manifest would get a node; `what_if` tells which, or why not. Raises ChangeError."""
    return what_if(cluster, demand, supposed).fits


def how_many(
    cluster: Cluster, demand: PodBatch, supposed: Iterable[SupposedChange] = (), *, at_most: int = 1000
) -> HowMany:
    """How many copies of a manifest fit, and which pod ends that; counting ends at a limit. Raises ChangeError."""
    copies = what_if(cluster, demand, supposed, at_most=at_most).copies
    assert copies is not None  # it was asked for
    return copies


def became_of(cluster: Cluster, pod: Pod) -> WhatIfAnswer:
    """What has become of a pod that is in the cluster."""
    return WhatIfAnswer(outcomes(cluster, [pod]), quotas=())


# Answers as they are written


def answer_tree(answer: WhatIfAnswer) -> Tree:
    """An answer for `-o json` and the dashboard."""
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
