"""Job: runs pods until enough of them have succeeded."""

from __future__ import annotations

from dray.api.cells import duration, seconds
from dray.api.columns import AGE, NAME, TableColumn, text
from dray.api.kind import ALL, STATUS, Resource
from dray.api.podspecs import template_defaults
from dray.api.templates import TEMPLATE_COLUMNS, pod_guards, template_warnings
from dray.api.types import batch
from dray.api.wire import Tree

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


_MOST_RETRIES = 2**31 - 1
_UID = "batch.kubernetes.io/controller-uid"
_NAME = "batch.kubernetes.io/job-name"


def _defaults(tree: Tree) -> None:
    spec = tree["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MOST_RETRIES if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    template_defaults(spec)


def _select_own_pods(tree: Tree) -> None:
    """Set the selector and labels so that the Job selects pods by its own UID, unless manualSelector is set."""
    spec, metadata = tree.setdefault("spec", {}), tree.get("metadata") or {}
    if spec.get("manualSelector"):
        return
    name, uid = metadata.get("name", ""), metadata.get("uid", "")
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    own = {_UID: uid, _NAME: name, "controller-uid": uid, "job-name": name}
    template["labels"] = {**(template.get("labels") or {}), **own}
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _UID: uid}
    tree["metadata"]["labels"] = metadata.get("labels") or dict(template["labels"])


KIND = Resource(
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
    generation=("spec",),
    status_writes_metadata=True,
    defaults={
        "spec.completionMode": "NonIndexed",
        "spec.suspend": False,
        "spec.manualSelector": False,
        "spec.podFailurePolicy.rules[].onPodConditions[].status": "True",
    },
    more_defaults=_defaults,
    warnings=template_warnings("spec.template"),
    guards={**pod_guards("spec.template.spec"), "WorkloadWithJob": ("spec.scheduling",)},
    on_create=_select_own_pods,
    selectable={"status.successful": lambda job: str(job.status.succeeded)},
    not_selectable='field label "{field}" not supported for Job',
    keeps_dependents=True,
)
