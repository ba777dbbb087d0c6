"""CronJob: creates Jobs on a schedule."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dray.api import cron
from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, number, since, text
from dray.api.errors import invalid, required, unsupported
from dray.api.kind import ALL, STATUS, Resource
from dray.api.paths import METADATA, Path
from dray.api.podspecs import template_defaults
from dray.api.rules import Errors
from dray.api.templates import pod_guards, template_columns, template_warnings
from dray.api.types import batch
from dray.api.wire import Tree

if TYPE_CHECKING:
    from dray.api.validation.context import Context


_CRON_NAME_MAX = 52  # the names of its Jobs have eleven more characters
_TIME_ZONE_PART = re.compile(r"(?!-)(?!\.\.?$)[A-Za-z.\-_0-9+]{1,14}")


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


def cron_name(cron_job: batch.CronJob, _: Path | None) -> Errors:
    """Yield an error if the name of a CronJob is too long for the names of its Jobs."""
    if len(cron_job.metadata.name) > _CRON_NAME_MAX:
        text = f"must be no more than {_CRON_NAME_MAX} characters"
        yield invalid(METADATA / "name", cron_job.metadata.name, text)


def schedule(spec: batch.CronJobSpec, old: batch.CronJobSpec | None, path: Path, _: Context) -> Errors:
    """Yield an error if the schedule of a CronJob is missing, invalid or contains a time zone.

    A time zone is kept if the old schedule has one and the field timeZone is not set.
    """
    path /= "schedule"
    if not spec.schedule:
        yield required(path)
    elif "TZ" in spec.schedule:
        if spec.timeZone is not None:
            yield invalid(path, spec.schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
        elif old is None or "TZ" not in old.schedule:
            yield invalid(path, spec.schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    else:
        try:
            cron.parse(spec.schedule)
        except cron.ScheduleError as error:
            yield invalid(path, spec.schedule, str(error))


def time_zone(name: str, path: Path) -> Errors:
    if not name:
        yield invalid(path, name, "timeZone must be nil or non-empty string")
        return
    is_name = all(map(_TIME_ZONE_PART.fullmatch, name.split("/")))
    if is_name and name.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid(path, name, text)
    if name == "Local":
        return
    if is_name and ".." in name:
        yield invalid(path, name, "time: invalid location name")
        return
    try:
        ZoneInfo(name if is_name else "")
    except (OSError, ValueError, KeyError):
        yield invalid(path, name, f"unknown time zone {name}")


def no_manual(spec: batch.JobSpec, path: Path) -> Errors:
    """Yield an error if the Job template of a CronJob sets manualSelector."""
    if spec.manualSelector:
        yield unsupported(path / "manualSelector", True, ("nil", "false"))
