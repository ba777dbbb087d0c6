"""CronJob: creates Jobs on a schedule."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, number, since, text
from dray.api.kind import ALL, STATUS, Resource
from dray.api.podspecs import template_defaults
from dray.api.templates import pod_guards, template_columns, template_warnings
from dray.api.types import batch
from dray.api.wire import Tree


def _defaults(tree: Tree) -> None:
    """Add the defaults of the pod template. The other Job defaults are added when a Job is created."""
    template_defaults(tree["spec"].setdefault("jobTemplate", {}).setdefault("spec", {}))


KIND = Resource(
    batch.CronJob,
    short_names=("cj",),
    categories=ALL,
    subresources=STATUS,
    columns=(
        NAME,
        text("Schedule", "spec.schedule"),
        text("Timezone", "spec.timeZone", NONE),
        text("Suspend", lambda job: str(bool(job.spec.suspend))),
        number("Active", lambda job: len(job.status.active)),
        since("Last Schedule", "status.lastScheduleTime", NONE),
        AGE,
        *template_columns("spec.jobTemplate.spec"),
    ),
    generation=("spec",),
    status_writes_metadata=True,
    defaults={
        "spec.concurrencyPolicy": "Allow",
        "spec.suspend": False,
        "spec.successfulJobsHistoryLimit": 3,
        "spec.failedJobsHistoryLimit": 1,
    },
    more_defaults=_defaults,
    warnings=template_warnings("spec.jobTemplate.spec.template"),
    guards={
        **pod_guards("spec.jobTemplate.spec.template.spec"),
        "WorkloadWithJob": ("spec.jobTemplate.spec.scheduling",),
    },
)
