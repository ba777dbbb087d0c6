"""Suggestions that make room by moving or preempting other pods, tried in a simulated cluster.

Left out: deleting pods for good (`devices`), and plans with longer chains of moves (`dray.questions.defragmenting`).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from dray.api.naming import name_of
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.taken import MovedPod, MovePods, UsePriority
from dray.api.reasons.suggestions import Suggestion
from dray.api.types.core import Node, Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.scheduling import PriorityClass
from dray.api.wire import Tree
from dray.core.victims import priority_of
from dray.inspect.changes import evicted, patched
from dray.inspect.suggesting.subject import WaitingPod
from dray.sim.cluster import Cluster
from dray.sim.copies import unplaced
from dray.sim.moving import MovePlan, MovePlanner, may_be_evicted
from dray.sim.what_if import is_placed, preempting

_MOVES = 3
_TRIES = 400  # limit of placement attempts for one suggestion
_CLASSES = 4  # priority classes to try


def move_pods(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """Yield the suggestion to move the fewest and least important pods of one node elsewhere.

    Yields nothing if the cluster cannot be simulated, no plan is found, the plan moves pods of several nodes, or the
    scheduler would not carry it out.
    """
    cluster = subject.simulated
    if cluster is None:
        return
    found = MovePlanner(cluster, _TRIES).plan([subject.pod], _MOVES).plan
    if found is None or not found.moves:
        return
    home = found.pods[0].node
    if any(move.source != home for move in found.moves) or not _comes_about(cluster, subject.pod, found, home):
        return
    node = subject.snapshot.get(Node, home)
    pods = [_pod(cluster, move.pod) for move in found.moves]
    if node is None or None in pods:
        return
    moves = tuple(MovedPod(subject.named(pod), move.target) for pod, move in zip(pods, found.moves, strict=True) if pod)
    closing, opening = (patched(node, {"spec": {"unschedulable": closed}}) for closed in (True, None))
    changes = (closing, *(evicted(pod) for pod in pods if pod), opening)
    yield MovePods(home, moves, changes=changes)


def _comes_about(cluster: Cluster, pod: Pod, plan: MovePlan, home: str) -> bool:
    """Whether the scheduler would carry out the plan by itself if the pods were evicted while the node is cordoned."""
    with cluster.fork() as trial:
        node = trial.get(Node, home)
        if node is None:
            return False
        trial.add(replace(node, spec=replace(node.spec, unschedulable=True)))
        moving = [found for move in plan.moves if (found := _pod(trial, move.pod)) is not None]
        for one in moving:
            trial.remove(Pod, one.metadata.name, one.metadata.namespace)
            trial.add(unplaced(one))
            trial.settle()
        trial.add(node)
        trial.settle()
        return all(is_placed(trial, one) for one in (*moving, pod))


def _pod(cluster: Cluster, name: str) -> Pod | None:
    namespace, _, short = name.partition("/")
    return cluster.get(Pod, short, namespace)


def use_priority(subject: WaitingPod, cause: Cause) -> Iterator[Suggestion]:
    """Yield the lowest priority class with which the pod would preempt others without violating disruption budgets.

    System classes are not suggested. Yields nothing for a pod that never preempts, or if the cluster cannot be
    simulated.
    """
    cluster, own = subject.simulated, priority_of(subject.pod)
    if cluster is None or subject.pod.spec.preemptionPolicy == "Never":
        return
    higher = [
        one for one in cluster.all(PriorityClass) if one.value > own and not one.metadata.name.startswith("system-")
    ]
    preempting_ones = (one for one in higher if one.preemptionPolicy != "Never")
    for one in sorted(preempting_ones, key=lambda one: (one.value, one.metadata.name))[:_CLASSES]:
        victims, node = _preempted(cluster, subject.pod, one)
        if victims:
            changes = subject.again(lambda spec, name=one.metadata.name: _with_class(spec, name))  # type: ignore[misc]
            names = tuple(subject.named(victim) for victim in victims)
            yield UsePriority(subject.label, one.metadata.name, names, node, changes=changes)
            return


def _preempted(cluster: Cluster, pod: Pod, of_class: PriorityClass) -> tuple[list[Pod], str]:
    """Return the pods that would be preempted with this priority class, and the node.

    Both are empty if the class does not help or disruption budgets forbid the evictions.
    """
    budgets = [*cluster.all(PodDisruptionBudget)]
    with cluster.fork() as trial, preempting(trial) as preempted:
        before = {name_of(one): one for one in trial.all(Pod)}
        trial.remove(Pod, pod.metadata.name, pod.metadata.namespace)
        spec = replace(
            pod.spec, priority=of_class.value, priorityClassName=of_class.metadata.name, preemptionPolicy=None
        )
        trial.submit(unplaced(replace(pod, spec=spec)))
        trial.settle()
        placed = trial.current(pod)
        victims = [before[name] for name, by in preempted.items() if by == name_of(pod) and name in before]
        is_allowed = all(may_be_evicted(victim, budgets) for victim in victims)
        node = placed.spec.nodeName if placed is not None else ""
        return (victims, node) if node and is_allowed else ([], "")


def _with_class(spec: Tree, name: str) -> None:
    """Set the priority class of a pod spec in place."""
    spec["priorityClassName"] = name
    spec.pop("priority", None)
    spec.pop("preemptionPolicy", None)
