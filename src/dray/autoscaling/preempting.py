"""Preemption before new nodes are planned: pods preempt less important pods on existing nodes.

A pod placed this way needs no node. Victims with a controller are recreated, so the new pod may need a node instead.
Victims already being evicted by the scheduler count as gone. Left out: the plan for the pods that then wait
(`planner`).
"""

from __future__ import annotations

from collections.abc import Mapping

from dray.api.naming import name_of
from dray.api.types.core import Pod
from dray.sim.cluster import Cluster
from dray.sim.copies import is_daemon, unplaced
from dray.sim.what_if import preempting


def settle_with_preemption(trial: Cluster) -> Mapping[str, str]:
    """Place pods, with preemption. Returns the preempted pods with their preemptors.

    Both are given as namespace/name. Preempted pods that a controller would recreate wait again. Call within a fork.
    """
    for pod in [one for one in trial.all(Pod) if _is_leaving(one)]:
        trial.remove(Pod, pod.metadata.name, pod.metadata.namespace)  # its replacement already exists
    there = {name_of(pod): pod for pod in trial.all(Pod)}
    trial.settle()
    with preempting(trial) as preempted:
        _try_again(trial)
        while gone := [there[name] for name in sorted(preempted) if _is_missing(trial, there[name])]:
            for pod in gone:
                trial.submit(unplaced(pod))
            trial.settle()
        return dict(preempted)


def _try_again(trial: Cluster) -> None:
    """Retry all waiting pods, unless no pod has a lower priority than all of them."""
    waiting = trial.waiting()
    highest = max((pod.spec.priority or 0 for pod in trial.all(Pod) if name_of(pod) in waiting), default=0)
    if any(priority < highest for priority in trial.model.state.table.priorities):
        trial.model.queue.activate_refused()
        trial.settle()


def _is_leaving(pod: Pod) -> bool:
    """Whether a pod was already preempted by the scheduler and is terminating."""
    reasons = {one.reason for one in pod.status.conditions if one.type == "DisruptionTarget"}
    return pod.metadata.deletionTimestamp is not None and "PreemptionByScheduler" in reasons


def _is_missing(trial: Cluster, pod: Pod) -> bool:
    """Whether a pod is gone and its controller would recreate it."""
    has_controller = any(owner.controller for owner in pod.metadata.ownerReferences)
    return has_controller and not is_daemon(pod) and trial.current(pod) is None
