"""Facts about pods for workload controllers: whether a pod is active, ready or available, and which to delete first.

Pure; the time is a parameter. Left out: creating and deleting pods (`podcontrol`) and their owners (`adoption`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from dray.api.objects import Object
from dray.api.podclaims import is_finished
from dray.api.times import parse_timestamp
from dray.api.types.core import Pod, PodTemplateSpec
from dray.api.wire import Tree, tree_of
from dray.controllers.ownership import controller_reference

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
# Of two pods, the one in the earlier phase is deleted first.
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_deleting(obj: Object) -> bool:
    return obj.metadata.deletionTimestamp is not None


def is_active(pod: Pod) -> bool:
    """Whether a pod has neither finished nor been deleted, so that it counts as a replica."""
    return not is_finished(pod) and not is_deleting(pod)


def is_terminating(pod: Pod) -> bool:
    """Whether a pod was deleted but has not finished yet."""
    return not is_finished(pod) and is_deleting(pod)


def ready_since(pod: Pod) -> float | None:
    """Return the time since which a pod is ready, or None if it is not ready.

    The time is in seconds since 1970, or 0 if the condition has no time.
    """
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            if condition.status != "True":
                return None
            return parse_timestamp(condition.lastTransitionTime) if condition.lastTransitionTime else 0.0
    return None


def is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


def until_available(pod: Pod, min_ready_seconds: int, now: float) -> float | None:
    """Return the seconds until the pod has been ready for `min_ready_seconds`: 0 if it has, None if it is not ready.

    `now` is in seconds since 1970.
    """
    if not min_ready_seconds:
        return 0.0 if is_ready(pod) else None
    since = ready_since(pod)
    return None if since is None else max(0.0, since + min_ready_seconds - now)


def is_available(pod: Pod, min_ready_seconds: int, now: float) -> bool:
    return until_available(pod, min_ready_seconds, now) == 0.0


def next_available(pods: Iterable[Pod], min_ready_seconds: int, now: float) -> float | None:
    """Return the seconds until the next ready pod becomes available, or None if all are or none is ready.

    `now` is in seconds since 1970.
    """
    waits = (until_available(pod, min_ready_seconds, now) for pod in pods)
    return min((wait for wait in waits if wait), default=None)


def deletion_order(pods: Sequence[Pod], related: Iterable[Pod], now: float) -> list[Pod]:
    """Return the pods in the order of deletion: unscheduled, pending, unready, cheap, crowded and young pods first.

    `related` are the active pods of the same application; a pod on a node with more of them is deleted earlier. Ages
    are compared by magnitude only, so that a scale-down does not always hit the newest node. `now` is in seconds
    since 1970.
    """
    crowd: dict[str, int] = {}
    for pod in related:
        crowd[pod.spec.nodeName] = crowd.get(pod.spec.nodeName, 0) + 1

    def rank(pod: Pod) -> tuple[Any, ...]:
        since = ready_since(pod)
        return (
            bool(pod.spec.nodeName),
            _PHASES.get(pod.status.phase, 0),
            since is not None,
            _deletion_cost(pod),
            -crowd.get(pod.spec.nodeName, 0),
            _magnitude(now - since) if since is not None else 0,
            -max((status.restartCount for status in pod.status.containerStatuses), default=0),
            _magnitude(now - creation_time(pod)),
            pod.metadata.uid,
        )

    return sorted(pods, key=rank)


def creation_time(obj: Object) -> float:
    created = obj.metadata.creationTimestamp
    return parse_timestamp(created) if created else 0.0


def pod_tree(owner: Object, template: PodTemplateSpec) -> Tree:
    """Return the pod that a template describes, controlled by the owner and with a name generated from its name."""
    meta = template.metadata
    metadata: Tree = {
        "generateName": f"{owner.metadata.name}-",
        "namespace": owner.metadata.namespace,
        "labels": dict(meta.labels),
        "annotations": dict(meta.annotations),
        "finalizers": list(meta.finalizers),
        "ownerReferences": [controller_reference(owner)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {name: value for name, value in metadata.items() if value},
        "spec": tree_of(template.spec),
    }


def _deletion_cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _magnitude(seconds: float) -> int:
    return math.floor(math.log2(seconds)) if seconds >= 1 else 0
