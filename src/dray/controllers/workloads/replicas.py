"""How many pods a ReplicaSet has, and what its status says about them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.errors import ApiError
from dray.api.types.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from dray.api.types.core import Pod
from dray.client.clock import timestamp
from dray.controllers.workloads.pods import is_active, is_available, is_ready, is_terminating

FAILURE = "ReplicaFailure"


def missing(replica_set: ReplicaSet, active: Sequence[Pod]) -> int:
    """How many pods are to be created; negative: how many are too many."""
    return (replica_set.spec.replicas or 0) - len(active)


def status_of(replica_set: ReplicaSet, pods: Sequence[Pod], error: ApiError | None, now: float) -> ReplicaSetStatus:
    """`pods` are all that it controls; `error` is why the last attempt to create or delete one failed."""
    active = [pod for pod in pods if is_active(pod)]
    wanted = replica_set.spec.template.metadata.labels.items()
    return ReplicaSetStatus(
        replicas=len(active),
        fullyLabeledReplicas=sum(wanted <= pod.metadata.labels.items() for pod in active),
        readyReplicas=sum(map(is_ready, active)),
        availableReplicas=sum(is_available(pod, replica_set.spec.minReadySeconds, now) for pod in active),
        terminatingReplicas=sum(map(is_terminating, pods)),
        observedGeneration=replica_set.metadata.generation,
        conditions=_conditions(replica_set, missing(replica_set, active), error, now),
    )


def _conditions(
    replica_set: ReplicaSet, missing_pods: int, error: ApiError | None, now: float
) -> tuple[ReplicaSetCondition, ...]:
    conditions = replica_set.status.conditions
    if error is None:
        return tuple(condition for condition in conditions if condition.type != FAILURE)
    if any(condition.type == FAILURE for condition in conditions):
        return conditions  # it says since when, and why it began
    failure = ReplicaSetCondition(
        type=FAILURE,
        status="True",
        reason="FailedCreate" if missing_pods > 0 else "FailedDelete",
        message=error.message,
        lastTransitionTime=timestamp(now),
    )
    return (*conditions, failure)
