"""Counts the pods of a ReplicaSet or ReplicationController and computes its status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from dray.api.errors import ApiError
from dray.api.times import timestamp
from dray.api.types.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from dray.api.types.core import (
    Pod,
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from dray.controllers.workloads.pods import is_active, is_available, is_ready, is_terminating

FAILURE = "ReplicaFailure"

C = TypeVar("C", bound=ReplicaSetCondition | ReplicationControllerCondition)
ReplicaOwner = ReplicaSet | ReplicationController
Status = ReplicaSetStatus | ReplicationControllerStatus


def missing(owner: ReplicaOwner, active: Sequence[Pod]) -> int:
    """Return how many pods must be created, or if negative, how many must be deleted.

    `active` are the pods that count. An owner without a replica count wants none.
    """
    return (owner.spec.replicas or 0) - len(active)


def status_of(owner: ReplicaOwner, pods: Sequence[Pod], error: ApiError | None, now: float) -> Status:
    """Return the status of the owner of `pods`; `error` is why the last write of a pod failed, or None.

    Only active pods count as replicas. `now` is in seconds since 1970.
    """
    active = [pod for pod in pods if is_active(pod)]
    wanted = owner.spec.template.metadata.labels.items()
    failure = _failure(missing(owner, active), error, now) if error else None
    found: dict[str, Any] = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(wanted <= pod.metadata.labels.items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, owner.spec.minReadySeconds, now) for pod in active),
        "observedGeneration": owner.metadata.generation,
    }
    if isinstance(owner, ReplicationController):
        old = owner.status.conditions
        return ReplicationControllerStatus(conditions=_kept(old, failure, ReplicationControllerCondition), **found)
    conditions = _kept(owner.status.conditions, failure, ReplicaSetCondition)
    return ReplicaSetStatus(terminatingReplicas=sum(map(is_terminating, pods)), conditions=conditions, **found)


def _kept(conditions: tuple[C, ...], failure: dict[str, str] | None, type_: type[C]) -> tuple[C, ...]:
    """Return the conditions with or without the failure. An existing failure keeps its time and message.

    `failure` holds the fields of the condition to add; None removes the failure.
    """
    if failure is None:
        return tuple(condition for condition in conditions if condition.type != FAILURE)
    if any(condition.type == FAILURE for condition in conditions):
        return conditions
    return (*conditions, type_(**failure))


def _failure(missing_pods: int, error: ApiError, now: float) -> dict[str, str]:
    return {
        "type": FAILURE,
        "status": "True",
        "reason": "FailedCreate" if missing_pods > 0 else "FailedDelete",
        "message": error.message,
        "lastTransitionTime": timestamp(now),
    }
