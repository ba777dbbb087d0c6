"""CronJob: creates Jobs by a schedule."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, number, since, text
from dray.api.kind import ALL, STATUS, Resource
from dray.api.templates import template_columns
from dray.api.types import batch

KIND = Resource(
    "batch",
    "cronjobs",
    "CronJob",
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
)
