"""Computes a Deployment's status: counts, availability and progress. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dray.api.times import parse_timestamp, timestamp
from dray.api.types.apps import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from dray.controllers.workloads.replicas import FAILURE
from dray.controllers.workloads.revisions import Sets
from dray.controllers.workloads.rollout import max_unavailable, wanted

AVAILABLE = "Available"
PROGRESSING = "Progressing"
NEW_SET_AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
NEW_SET_CREATED = "NewReplicaSetCreated"
FOUND_NEW_SET = "FoundNewReplicaSet"
SET_UPDATED = "ReplicaSetUpdated"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"
_NO_DEADLINE = 2**31 - 1

DeploymentConditions = tuple[DeploymentCondition, ...]


def find(conditions: DeploymentConditions, type_: str) -> DeploymentCondition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def with_condition(
    conditions: DeploymentConditions,
    now: float,
    type_: str,
    status: str,
    reason: str,
    message: str,
    *,
    renew: bool = False,
) -> DeploymentConditions:
    """Return the conditions with this condition set. With equal status and reason nothing changes, unless `renew`.

    `now` (seconds since 1970) becomes the time of the update, and that of the transition if the status changes.
    """
    current = find(conditions, type_)
    if current is not None and not renew and (current.status, current.reason) == (status, reason):
        return conditions
    written = timestamp(now)
    unmoved = current is not None and current.status == status
    condition = DeploymentCondition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        lastUpdateTime=written,
        lastTransitionTime=current.lastTransitionTime if unmoved and current else written,
    )
    return (*without(conditions, type_), condition)


def without(conditions: DeploymentConditions, type_: str) -> DeploymentConditions:
    return tuple(condition for condition in conditions if condition.type != type_)


def pause_conditions(deployment: Deployment, conditions: DeploymentConditions, now: float) -> DeploymentConditions:
    """Return the conditions updated for a paused or resumed rollout. A rollout that timed out stays timed out.

    Without a progress deadline nothing changes. `now` is in seconds since 1970.
    """
    current = find(conditions, PROGRESSING)
    if not has_deadline(deployment) or (current is not None and current.reason == TIMED_OUT):
        return conditions
    paused_before = current is not None and current.reason == PAUSED
    if deployment.spec.paused and not paused_before:
        return with_condition(conditions, now, PROGRESSING, "Unknown", PAUSED, "Deployment is paused")
    if not deployment.spec.paused and paused_before:
        return with_condition(conditions, now, PROGRESSING, "Unknown", RESUMED, "Deployment is resumed")
    return conditions


def counted(deployment: Deployment, sets: Sets, conditions: DeploymentConditions, now: float) -> DeploymentStatus:
    """Return the status with the counts of all ReplicaSets and the condition Available.

    `now` is in seconds since 1970, for the time of the condition.
    """
    everything = sets.all
    replicas = sum(one.status.replicas for one in everything)
    available = sum(one.status.availableReplicas for one in everything)
    if available >= wanted(deployment) - max_unavailable(deployment):
        answer = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        answer = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return DeploymentStatus(
        observedGeneration=deployment.metadata.generation,
        replicas=replicas,
        updatedReplicas=sets.new.status.replicas if sets.new is not None else 0,
        readyReplicas=sum(one.status.readyReplicas for one in everything),
        availableReplicas=available,
        unavailableReplicas=max(0, sum(one.spec.replicas or 0 for one in everything) - available),
        terminatingReplicas=sum(one.status.terminatingReplicas or 0 for one in everything),
        collisionCount=deployment.status.collisionCount,
        conditions=with_condition(conditions, now, AVAILABLE, *answer),
    )


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all wanted pods run with the current template and are available, and no other pods exist."""
    goal = wanted(deployment)
    return (
        status.updatedReplicas == goal
        and status.replicas == goal
        and status.availableReplicas == goal
        and status.observedGeneration >= deployment.metadata.generation
    )


def rollout_status(
    deployment: Deployment, sets: Sets, conditions: DeploymentConditions, now: float
) -> DeploymentStatus:
    """Return the complete status of a Deployment during or after a rollout.

    `now` is in seconds since 1970, for the times of conditions.
    """
    status = counted(deployment, sets, conditions, now)
    conditions = _progress(deployment, sets, status, now)
    return replace(status, conditions=_failures(conditions, sets, now))


def until_deadline(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """Return the seconds until a stalled rollout counts as failed, or None if no deadline applies.

    None also applies while the Deployment is paused, and after the rollout has completed or failed. `now` is in
    seconds since 1970.
    """
    condition = find(status.conditions, PROGRESSING)
    if not has_deadline(deployment) or deployment.spec.paused or condition is None:
        return None
    if condition.reason in (NEW_SET_AVAILABLE, TIMED_OUT):
        return None
    # One second is added, because times are written in whole seconds.
    return max(0.0, _deadline(deployment, condition) - now) + 1.0


def has_deadline(deployment: Deployment) -> bool:
    seconds = deployment.spec.progressDeadlineSeconds
    return seconds is not None and seconds != _NO_DEADLINE


def _deadline(deployment: Deployment, condition: DeploymentCondition) -> float:
    since = parse_timestamp(condition.lastUpdateTime) if condition.lastUpdateTime else 0.0
    return since + (deployment.spec.progressDeadlineSeconds or 0)


def _progress(deployment: Deployment, sets: Sets, status: DeploymentStatus, now: float) -> DeploymentConditions:
    conditions = status.conditions
    if not has_deadline(deployment):
        return without(conditions, PROGRESSING)
    current = find(conditions, PROGRESSING)
    done = current is not None and current.reason == NEW_SET_AVAILABLE
    if done and status.replicas == status.updatedReplicas:
        return conditions
    who = f'ReplicaSet "{sets.new.metadata.name}"' if sets.new else f'Deployment "{deployment.metadata.name}"'
    if is_complete(deployment, status):
        text = f"{who} has successfully progressed."
        return with_condition(conditions, now, PROGRESSING, "True", NEW_SET_AVAILABLE, text)
    if _has_moved(deployment.status, status):
        text = f"{who} is progressing."
        return with_condition(conditions, now, PROGRESSING, "True", SET_UPDATED, text, renew=True)
    if current is not None and not done and now > _deadline(deployment, current):
        text = f"{who} has timed out progressing."
        return with_condition(conditions, now, PROGRESSING, "False", TIMED_OUT, text)
    return conditions


def _has_moved(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updatedReplicas > before.updatedReplicas
        or after.replicas - after.updatedReplicas < before.replicas - before.updatedReplicas
        or after.readyReplicas > before.readyReplicas
        or after.availableReplicas > before.availableReplicas
    )


def _failures(conditions: DeploymentConditions, sets: Sets, now: float) -> DeploymentConditions:
    """Return the conditions with the ReplicaFailure condition of a ReplicaSet, of the new one first.

    Without such a condition in a ReplicaSet the Deployment's is removed. `now` is in seconds since 1970.
    """
    candidates: Sequence[ReplicaSet] = [sets.new, *sets.old] if sets.new is not None else sets.old
    for one in candidates:
        for failure in one.status.conditions:
            if failure.type == FAILURE:
                return with_condition(conditions, now, FAILURE, failure.status, failure.reason, failure.message)
    return without(conditions, FAILURE)
