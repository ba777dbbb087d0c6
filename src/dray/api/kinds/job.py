"""Job: runs pods until enough of them have succeeded."""

from __future__ import annotations

from dray.api.cells import duration, seconds
from dray.api.columns import AGE, NAME, TableColumn, text
from dray.api.kind import ALL, STATUS, Resource
from dray.api.templates import TEMPLATE_COLUMNS
from dray.api.types import batch

_STATES = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _state(job: batch.Job) -> str:
    held = {c.type for c in job.status.conditions if c.status == "True"}
    for state in _STATES:
        if state == "Suspended" and job.metadata.deletionTimestamp:
            return "Terminating"
        if state in held:
            return state
    return "Running"


def _completions(job: batch.Job) -> str:
    done, parallelism = job.status.succeeded, job.spec.parallelism or 0
    if job.spec.completions is not None:
        return f"{done}/{job.spec.completions}"
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(job: batch.Job, now: float) -> str:
    status = job.status
    if not status.startTime:
        return ""
    end = seconds(status.completionTime) if status.completionTime else now
    return duration(end - seconds(status.startTime))


KIND = Resource(
    "batch",
    "jobs",
    "Job",
    batch.Job,
    categories=ALL,
    subresources=STATUS,
    columns=(
        NAME,
        text("Status", _state),
        text("Completions", _completions),
        TableColumn("Duration", _duration),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
)
