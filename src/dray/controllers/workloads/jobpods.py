"""The pods of a Job: how they are created, which index they have, when and how they ended. Pure."""

from __future__ import annotations

from dray.api.times import parse_timestamp
from dray.api.types.batch import Job
from dray.api.types.core import Pod
from dray.client import Tree
from dray.controllers.workloads.pods import is_deleting, pod_tree

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_HOST_NAME_LIMIT = 63


def is_indexed(job: Job) -> bool:
    return job.spec.completionMode == "Indexed"


def is_tracked(pod: Pod) -> bool:
    """Whether the pod still has to be counted: it has the Job controller's tracking finalizer."""
    return TRACKING in pod.metadata.finalizers


def index_of(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else None


def failures_before(pod: Pod) -> int:
    """Return how often the pod's index had failed when the pod was created.

    The number comes from an annotation. Returns 0 if the annotation is missing or not a number.
    """
    text = pod.metadata.annotations.get(INDEX_FAILURES, "0")
    return int(text) if text.isdigit() else 0


def has_succeeded(pod: Pod) -> bool:
    return pod.status.phase == "Succeeded"


def has_failed(job: Job, pod: Pod) -> bool:
    """Whether a pod failed or was deleted before it ended.

    A deleted pod counts as failed at once if the Job replaces it at once, otherwise when its node is done with it.
    """
    if pod.status.phase == "Failed":
        return True
    if not is_deleting(pod) or has_succeeded(pod):
        return False
    at_once = job.spec.podReplacementPolicy != "Failed" and job.spec.podFailurePolicy is None
    return at_once or pod.metadata.deletionGracePeriodSeconds == 0


def ended_at(pod: Pod) -> float:
    """Return when the pod's last container ended, in seconds since 1970; 0 if unknown.

    If no container has ended, the last change of the Ready condition counts, and without that the pod's deletion or
    creation.
    """
    ends = [
        status.state.terminated.finishedAt
        for status in pod.status.containerStatuses
        if status.state.terminated is not None and status.state.terminated.finishedAt
    ]
    ends = ends or [c.lastTransitionTime for c in pod.status.conditions if c.type == "Ready" and c.lastTransitionTime]
    ends = ends or [moment for moment in (pod.metadata.deletionTimestamp, pod.metadata.creationTimestamp) if moment]
    return max(map(parse_timestamp, ends), default=0.0)


def job_pod(job: Job, index: int | None, failures: int, group: str = "") -> Tree:
    """Return a pod of the Job with its index in annotation, label, hostname and environment variable.

    The pod has none of these if the index is None. `failures` is the previous number of failures of the index, and
    `group` the pod's PodGroup if not empty.
    """
    tree = pod_tree(job, job.spec.template)
    metadata, spec = tree["metadata"], tree["spec"]
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    metadata["finalizers"] = [*metadata.get("finalizers", []), TRACKING]
    if index is None:
        return tree
    name = f"{job.metadata.name}-{index}"
    annotations = {INDEX: str(index)}
    if job.spec.backoffLimitPerIndex is not None:
        annotations[INDEX_FAILURES] = str(failures)
    metadata["generateName"] = f"{name}-"
    metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}
    metadata["labels"] = {**metadata.get("labels", {}), INDEX: str(index)}
    spec["hostname"] = name[:_HOST_NAME_LIMIT]
    variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        named = container.setdefault("env", [])
        if all(entry["name"] != INDEX_VARIABLE for entry in named):
            named.append(variable)
    return tree
