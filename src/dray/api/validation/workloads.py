"""Rules for workloads and PodDisruptionBudgets that cannot be expressed as steps."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from dray.api import cron
from dray.api.constraints import checked
from dray.api.errors import FieldError, duplicate, forbidden, invalid, required, too_many, unsupported, wrong
from dray.api.paths import METADATA, Path
from dray.api.selectors import label_selector as matcher
from dray.api.types import apps, batch, core, meta, policy
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, at_least, each, unchanged
from dray.api.validation.placement import label_selector
from dray.api.validation.pods import pod_template
from dray.api.written import as_go

_NO_MATCH = "`selector` does not match template `labels`"
_TITLES = {"deployment": "ReplicaSet", "daemonset": "DaemonSet", "replicaset": "ReplicaSet"}
_TITLES |= {"replicationcontroller": "ReplicationController", "statefulset": "StatefulSet"}
_JOB_RESTARTS = ("OnFailure", "Never")
_CRON_NAME_MAX = 52  # the names of its Jobs have eleven more characters
_MOST_INDEXED = 100_000
_MOST_OF_MANY = 10_000  # maximum parallelism with more than _MOST_INDEXED completions and a backoff limit per index
_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_RULES_MAX = 20
_PATTERNS_MAX = 20
_EXIT_CODES_MAX = 255
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_NUMBER = re.compile("[0-9]+%?")
_TIME_ZONE_PART = re.compile(r"(?!-)(?!\.\.?$)[A-Za-z.\-_0-9+]{1,14}")

Selecting = apps.DeploymentSpec | apps.DaemonSetSpec | apps.ReplicaSetSpec | apps.StatefulSetSpec


def selected_template(kind: str, spec: Selecting, _: object, path: Path, context: Context) -> Errors:
    """Yield errors in a pod template, and in the selector that must match its pods."""
    here, selector = path / "selector", spec.selector
    faults = list(label_selector(selector, here))
    if selector is None:
        if kind != "daemonset":
            yield required(here)
    else:
        yield from faults
        if not selector.matchLabels and not selector.matchExpressions:
            yield invalid(here, selector, f"empty selector is invalid for {kind}")
    if faults and kind != "daemonset":
        yield invalid(here, selector, "" if kind == "statefulset" else "invalid label selector")
    elif not faults:
        yield from _matched(selector, spec.template, path / "template")
    claims = spec.volumeClaimTemplates if isinstance(spec, apps.StatefulSetSpec) else ()
    volumes = tuple(core.Volume(name=claim.metadata.name) for claim in claims)
    yield from _lasting(spec.template, path / "template", kind, kind == "daemonset" or not faults, volumes)


def controller_template(spec: core.ReplicationControllerSpec, path: Path) -> Errors:
    """Yield errors in the template and selector of a ReplicationController, whose selector is a map of labels."""
    if not spec.selector:
        yield required(path / "selector")
    if spec.template == core.PodTemplateSpec():
        yield required(path / "template")
        return
    if spec.selector and not spec.selector.items() <= spec.template.metadata.labels.items():
        yield _unmatched(spec.template, path / "template")
    yield from _lasting(spec.template, path / "template", "replicationcontroller")


def _lasting(
    template: core.PodTemplateSpec, path: Path, kind: str, whole: bool = True, volumes: tuple[core.Volume, ...] = ()
) -> Errors:
    """Yield errors in the template of pods that run until they are deleted."""
    if whole:
        yield from pod_template(template, path, volumes)
    if template.spec.restartPolicy != "Always":
        yield unsupported(path / "spec" / "restartPolicy", template.spec.restartPolicy, ("Always",))
    if template.spec.activeDeadlineSeconds is not None:
        text = f"activeDeadlineSeconds in {_TITLES[kind]} is not Supported"
        yield forbidden(path / "spec" / "activeDeadlineSeconds", text)


def _matched(selector: meta.LabelSelector | None, template: core.PodTemplateSpec, path: Path) -> Errors:
    """Yield an error if a selector does not match the pods of a template."""
    if selector is None or not matcher(selector).matches(template.metadata.labels):
        yield _unmatched(template, path)


def _unmatched(template: core.PodTemplateSpec, path: Path) -> FieldError:
    return invalid(path / "metadata" / "labels", template.metadata.labels or None, _NO_MATCH)


def progress(spec: apps.DeploymentSpec, path: Path) -> Errors:
    """Yield an error if progressDeadlineSeconds of a Deployment is not greater than minReadySeconds."""
    deadline = spec.progressDeadlineSeconds
    if deadline is not None and deadline <= spec.minReadySeconds:
        yield invalid(path / "progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def some_progress(update: apps.RollingUpdateDeployment, path: Path) -> Errors:
    """Yield errors in the rolling update of a Deployment: maxUnavailable and maxSurge must not both be 0."""
    if not _count(update.maxUnavailable) and not _count(update.maxSurge):
        yield invalid(path / "maxUnavailable", update.maxUnavailable, "may not be 0 when `maxSurge` is 0")
    yield from _at_most_all(update.maxUnavailable, path / "maxUnavailable")


def one_way(update: apps.RollingUpdateDaemonSet, path: Path) -> Errors:
    """Yield errors in the rolling update of a DaemonSet: exactly one of maxUnavailable and maxSurge must be non-zero."""
    for field in ("maxUnavailable", "maxSurge"):
        yield from _at_most_all(getattr(update, field), path / field)
    if _count(update.maxUnavailable) and _count(update.maxSurge):
        yield invalid(path / "maxSurge", update.maxSurge, "may not be set when maxUnavailable is non-zero")
    elif not _count(update.maxUnavailable) and not _count(update.maxSurge):
        yield required(path / "maxUnavailable", "cannot be 0 when maxSurge is 0")


def some(value: int | str, path: Path) -> Errors:
    """Yield an error if a count or percentage is 0 or above 100%."""
    yield from _at_most_all(value, path)
    if not _count(value):
        yield invalid(path, value, "cannot be 0")


def _count(value: int | str | None) -> int:
    """Return the number in a count or percentage; 0 if the text is neither."""
    if isinstance(value, str):
        return int(value.removesuffix("%")) if _NUMBER.fullmatch(value) else 0
    return value or 0


def _at_most_all(value: int | str | None, path: Path) -> Errors:
    if isinstance(value, str) and value.endswith("%") and _count(value) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def scaled(value: int | str | None, path: Path) -> Errors:
    """Yield errors if the value is neither a non-negative count nor a percentage."""
    if isinstance(value, int):
        yield from at_least(value, 0, path)
    elif value is not None and not (value.endswith("%") and _NUMBER.fullmatch(value)):
        text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
        yield invalid(path, value, f"{text}used for validation is '[0-9]+%')")


def growing(count: int | None, before: int | None, path: Path) -> Errors:
    """Yield an error if a counter is lower than before."""
    if (count or 0) < (before or 0):
        yield invalid(path, count or 0, "cannot be decremented")


def budget_bounds(spec: policy.PodDisruptionBudgetSpec, path: Path) -> Errors:
    """Yield errors if both bounds of a PodDisruptionBudget are set, or a bound is invalid."""
    if spec.minAvailable is not None and spec.maxUnavailable is not None:
        yield invalid(path, spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        yield from scaled(getattr(spec, field), path / field)
        yield from _at_most_all(getattr(spec, field), path / field)


# Job and CronJob


def own_selector(spec: batch.JobSpec, path: Path) -> Errors:
    """Yield errors if the selector of a Job is missing, invalid, or does not match its pods."""
    faults = list(label_selector(spec.selector, path / "selector"))
    if spec.selector is None:
        yield required(path / "selector")
    yield from faults
    if not faults:
        yield from _matched(spec.selector, spec.template, path / "template")


def same_job(job: batch.Job, old: batch.Job, _: Path | None) -> Errors:
    """Yield errors if an update changes immutable fields of a Job."""
    spec, before, path = job.spec, old.spec, Path("spec")
    if spec.completionMode != "Indexed" or spec.completions != spec.parallelism:
        yield from unchanged(spec.completions, before.completions, path / "completions", spec.completions)
    yield from unchanged(spec.selector, before.selector, path / "selector", spec.selector)
    suspended = bool(before.suspend) and old.status.startTime is None
    if not suspended:  # the template of a suspended Job that has not started may change
        yield from unchanged(spec.template, before.template, path / "template", spec.template)
    for field in _FIXED:
        yield from unchanged(getattr(spec, field), getattr(before, field), path / field, as_go(getattr(spec, field)))
    yield from unchanged(_is_gang(spec), _is_gang(before), path / "scheduling" / "schedulingPolicy")


def _is_gang(spec: batch.JobSpec) -> bool:
    policy = spec.scheduling.schedulingPolicy if spec.scheduling is not None else None
    return policy is not None and policy.gang is not None


def job_template(spec: batch.JobSpec, path: Path) -> Errors:
    """Yield errors in the pod template of a Job, including its restartPolicy."""
    yield from pod_template(spec.template, path / "template")
    here, restarts = path / "template" / "spec" / "restartPolicy", spec.template.spec.restartPolicy
    if restarts == "Always":
        yield required(here, 'valid values: "OnFailure", "Never"')
    elif restarts not in _JOB_RESTARTS:
        yield unsupported(here, restarts, _JOB_RESTARTS)
    elif spec.podFailurePolicy is not None and restarts != "Never":
        yield invalid(here, restarts, 'only "Never" is supported when podFailurePolicy is specified')


def gang_size(spec: batch.JobSpec, path: Path) -> Errors:
    """Yield an error if the gang of a Job needs more pods than its parallelism."""
    policy = spec.scheduling.schedulingPolicy if spec.scheduling is not None else None
    size = policy.gang.minCount if policy is not None and policy.gang is not None else None
    if size is not None and spec.parallelism is not None and size > spec.parallelism:
        here = path / "scheduling" / "schedulingPolicy" / "gang" / "minCount"
        yield invalid(here, size, f"must be less than or equal to parallelism ({spec.parallelism})")


def indexed_parallelism(spec: batch.JobSpec, path: Path) -> Errors:
    """Yield errors if the parallelism of an indexed Job is too high."""
    path /= "parallelism"
    parallelism = spec.parallelism or 0
    if parallelism > _MOST_INDEXED:
        yield invalid(
            path, parallelism, f"must be less than or equal to {_MOST_INDEXED} when completionMode is Indexed"
        )
    many = (spec.completions or 0) > _MOST_INDEXED and spec.backoffLimitPerIndex is not None
    if many and parallelism > _MOST_OF_MANY:
        text = f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MOST_INDEXED}"
        yield invalid(path, parallelism, f"{text} and used with backoff limit per index")


def cron_name(cron_job: batch.CronJob, _: Path | None) -> Errors:
    """Yield an error if the name of a CronJob is too long for the names of its Jobs."""
    if len(cron_job.metadata.name) > _CRON_NAME_MAX:
        text = f"must be no more than {_CRON_NAME_MAX} characters"
        yield invalid(METADATA / "name", cron_job.metadata.name, text)


def schedule(spec: batch.CronJobSpec, old: batch.CronJobSpec | None, path: Path, _: Context) -> Errors:
    """Yield an error if the schedule of a CronJob is invalid or contains a time zone."""
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


# Pod failure policy of a Job: rules by exit code or by condition


def failure_policy(spec: batch.JobSpec, path: Path) -> Errors:
    """Yield errors in the pod failure policy of a Job."""
    assert spec.podFailurePolicy is not None  # only called if the field is set
    path /= "podFailurePolicy"
    rules = spec.podFailurePolicy.rules or ()
    if len(rules) > _RULES_MAX:
        yield too_many(path / "rules", len(rules), _RULES_MAX)
    pod = spec.template.spec
    containers = frozenset(container.name for container in (*pod.containers, *pod.initContainers))

    def rule(item: batch.PodFailurePolicyRule, here: Path) -> Errors:
        if item.action == "FailIndex":
            if spec.backoffLimitPerIndex is None:
                yield invalid(here / "action", item.action, "requires the backoffLimitPerIndex to be set")
        else:
            yield from _choice(item.action, _ACTIONS, here / "action")
        if item.onExitCodes is not None:
            yield from _exit_codes(item.onExitCodes, here / "onExitCodes", containers)
        patterns = item.onPodConditions
        if len(patterns) > _PATTERNS_MAX:
            yield too_many(here / "onPodConditions", len(patterns), _PATTERNS_MAX)
        yield from each(patterns, here / "onPodConditions", _pattern)
        if item.onExitCodes is not None and patterns:
            yield wrong(here, "specifying both OnExitCodes and OnPodConditions is not supported")
        elif item.onExitCodes is None and not patterns:
            yield wrong(here, "specifying one of OnExitCodes and OnPodConditions is required")

    yield from each(rules, path / "rules", rule)


def _choice(value: str, options: tuple[str, ...], path: Path) -> Errors:
    if not value:
        listed = " ".join(f'"{option}"' for option in options)
        yield required(path, f"valid values: [{listed}]")
    elif value not in options:
        yield unsupported(path, value, options)


def _exit_codes(item: batch.PodFailurePolicyOnExitCodesRequirement, path: Path, containers: frozenset[str]) -> Errors:
    yield from _choice(item.operator, _OPERATORS, path / "operator")
    if item.containerName is not None and item.containerName not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        yield invalid(path / "containerName", item.containerName, text)
    values, here = item.values or (), path / "values"
    if not values:
        yield invalid(here, [], "at least one value is required")
    elif len(values) > _EXIT_CODES_MAX:
        yield too_many(here, len(values), _EXIT_CODES_MAX)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if value == 0 and item.operator == "In":
            yield invalid(here / index, value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(here / index, value)
        seen.add(value)
    if list(values) != sorted(values):
        yield invalid(here, list(values), "must be ordered")


def _pattern(item: batch.PodFailurePolicyOnPodConditionsPattern, path: Path) -> Errors:
    yield from checked("io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern", item, path)
