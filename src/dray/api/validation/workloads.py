"""What makes pods: Deployment, ReplicaSet, ReplicationController, DaemonSet, Job, CronJob."""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from dray.api import cron
from dray.api.constraints import checked
from dray.api.errors import forbidden, invalid, required, unsupported
from dray.api.paths import METADATA, SPEC, Path
from dray.api.schema import APPS
from dray.api.selectors import label_selector as matcher
from dray.api.selectors import spelled_out
from dray.api.types import apps, batch, core, meta
from dray.api.validation.context import Context
from dray.api.validation.failure_policies import failure_policy
from dray.api.validation.lists import Errors, at_least, required_one_of, unchanged
from dray.api.validation.placement import label_selector
from dray.api.validation.pods import pod_template
from dray.api.written import as_go

_NO_MATCH = "`selector` does not match template `labels`"
_JOB_RESTARTS = ("OnFailure", "Never")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_CRON_NAME_MAX = 52
_MOST_INDEXED = 100_000
_MOST_OF_MANY = 10_000  # pods at once of a job with more indexes than that, whose failures are counted for each
_COMPLETION_MODES = ("Indexed", "NonIndexed")


def selected_template(
    selector: meta.LabelSelector | None,
    template: core.PodTemplateSpec,
    kind: str,
    restarts: tuple[str, ...],
    more_volumes: tuple[core.Volume, ...] = (),
) -> Errors:
    """Judge a template, and a selector that must find its pods. `more_volumes` are added to the pods when they are made."""
    path, labels = SPEC / "selector", template.metadata.labels
    faults = list(label_selector(selector, path))
    if selector is None:
        if kind != "daemonset":
            yield required(path)
    else:
        yield from faults
        if not selector.matchLabels and not selector.matchExpressions:
            yield invalid(path, selector, f"empty selector is invalid for {kind}")
    if faults and kind != "daemonset":
        yield invalid(path, selector, "" if kind == "statefulset" else "invalid label selector")
    elif not faults:
        yield from _matched(selector, labels, kind)
    if kind == "daemonset" or not faults:
        yield from pod_template(template, SPEC / "template", more_volumes)
    spec = template.spec
    if spec.restartPolicy not in restarts:
        yield unsupported(SPEC / "template" / "spec" / "restartPolicy", spec.restartPolicy, restarts)
    if spec.activeDeadlineSeconds is not None:
        text = f"activeDeadlineSeconds in {_TITLES[kind]} is not Supported"
        yield forbidden(SPEC / "template" / "spec" / "activeDeadlineSeconds", text)


def _matched(selector: meta.LabelSelector | None, labels: Mapping[str, str], kind: str) -> Errors:
    """Without a selector nothing is found, but for the oldest kind."""
    finds = kind == "replicationcontroller" if selector is None else matcher(selector).matches(labels)
    if not finds:
        yield invalid(SPEC / "template" / "metadata" / "labels", labels or None, _NO_MATCH)


_TITLES = {
    "deployment": "ReplicaSet",
    "daemonset": "DaemonSet",
    "replicaset": "ReplicaSet",
    "replicationcontroller": "ReplicationController",
    "statefulset": "StatefulSet",
}


# Deployment


def create_deployment(deployment: apps.Deployment, context: Context) -> Errors:
    spec = deployment.spec
    yield from at_least(spec.replicas, 0, SPEC / "replicas")
    yield from selected_template(spec.selector, spec.template, "deployment", ("Always",))
    yield from _deployment_strategy(spec.strategy, SPEC / "strategy")
    yield from checked(f"{APPS}DeploymentSpec", spec, SPEC)
    if spec.progressDeadlineSeconds is not None and spec.progressDeadlineSeconds <= spec.minReadySeconds:
        text = "must be greater than minReadySeconds"
        yield invalid(SPEC / "progressDeadlineSeconds", spec.progressDeadlineSeconds, text)


def update_deployment(deployment: apps.Deployment, old: apps.Deployment, context: Context) -> Errors:
    yield from create_deployment(deployment, context)
    yield from unchanged(deployment.spec.selector, old.spec.selector, SPEC / "selector", deployment.spec.selector)


def _deployment_strategy(strategy: apps.DeploymentStrategy, path: Path) -> Errors:
    if strategy.type == "Recreate":
        if strategy.rollingUpdate is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden(path / "rollingUpdate", text)
    elif strategy.type != "RollingUpdate":
        yield unsupported(path, as_go(strategy), ("Recreate", "RollingUpdate"))
    elif strategy.rollingUpdate is None:
        yield required(path / "rollingUpdate", "this should be defaulted and never be nil")
    else:
        update = strategy.rollingUpdate
        yield from scaled(update.maxUnavailable, path / "rollingUpdate" / "maxUnavailable")
        yield from scaled(update.maxSurge, path / "rollingUpdate" / "maxSurge")
        if update.maxUnavailable in (0, "0%") and update.maxSurge in (0, "0%"):
            text = "may not be 0 when `maxSurge` is 0"
            yield invalid(path / "rollingUpdate" / "maxUnavailable", update.maxUnavailable, text)


def scaled(value: int | str | None, path: Path) -> Errors:
    """A count or a percentage."""
    if isinstance(value, int):
        yield from at_least(value, 0, path)
    elif value is not None and not (value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit()):
        text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
        yield invalid(path, value, f"{text}used for validation is '[0-9]+%')")


# ReplicaSet, ReplicationController and DaemonSet


def create_replica_set(replica_set: apps.ReplicaSet, context: Context) -> Errors:
    spec = replica_set.spec
    yield from checked(f"{APPS}ReplicaSetSpec", spec, SPEC)
    yield from selected_template(spec.selector, spec.template, "replicaset", ("Always",))


def update_replica_set(replica_set: apps.ReplicaSet, old: apps.ReplicaSet, context: Context) -> Errors:
    yield from create_replica_set(replica_set, context)
    yield from unchanged(replica_set.spec.selector, old.spec.selector, SPEC / "selector", replica_set.spec.selector)


def check_replication_controller(controller: core.ReplicationController, context: Context) -> Errors:
    spec = controller.spec
    chosen = spelled_out(spec.selector) if spec.selector else None
    yield from selected_template(chosen, spec.template, "replicationcontroller", ("Always",))


def create_daemon_set(daemon_set: apps.DaemonSet, context: Context) -> Errors:
    spec = daemon_set.spec
    yield from selected_template(spec.selector, spec.template, "daemonset", ("Always",))
    yield from checked(f"{APPS}DaemonSetSpec", spec, SPEC)
    path, strategy = SPEC / "updateStrategy", spec.updateStrategy
    if strategy.type not in ("OnDelete", "RollingUpdate"):
        yield unsupported(path, as_go(strategy), ("RollingUpdate", "OnDelete"))
    elif strategy.type == "RollingUpdate":
        if strategy.rollingUpdate is None:
            yield required(path / "rollingUpdate")
        else:
            yield from scaled(strategy.rollingUpdate.maxUnavailable, path / "rollingUpdate" / "maxUnavailable")
            yield from scaled(strategy.rollingUpdate.maxSurge, path / "rollingUpdate" / "maxSurge")


def update_daemon_set(daemon_set: apps.DaemonSet, old: apps.DaemonSet, context: Context) -> Errors:
    yield from unchanged(daemon_set.spec.selector, old.spec.selector, SPEC / "selector", daemon_set.spec.selector)
    yield from create_daemon_set(daemon_set, context)


# Job


def create_job(job: batch.Job, context: Context) -> Errors:
    spec = job.spec
    yield from _job_work(spec, SPEC)
    faults = list(label_selector(spec.selector, SPEC / "selector"))
    if spec.selector is None:
        yield required(SPEC / "selector")
    yield from faults
    if not faults:
        yield from _matched(spec.selector, spec.template.metadata.labels, "job")


def update_job(job: batch.Job, old: batch.Job, context: Context) -> Errors:
    yield from create_job(job, context)
    spec, before = job.spec, old.spec
    if spec.completionMode != "Indexed" or spec.completions != spec.parallelism:
        yield from unchanged(spec.completions, before.completions, SPEC / "completions", spec.completions)
    yield from unchanged(spec.selector, before.selector, SPEC / "selector", spec.selector)
    suspended = bool(before.suspend) and old.status.startTime is None
    if not suspended:  # a job that has not begun may still be told where to run
        yield from unchanged(spec.template, before.template, SPEC / "template", spec.template)
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        yield from unchanged(getattr(spec, field), getattr(before, field), SPEC / field, as_go(getattr(spec, field)))
    yield from unchanged(_is_gang(spec), _is_gang(before), SPEC / "scheduling" / "schedulingPolicy")


def _is_gang(spec: batch.JobSpec) -> bool:
    policy = spec.scheduling.schedulingPolicy if spec.scheduling is not None else None
    return policy is not None and policy.gang is not None


def _job_work(spec: batch.JobSpec, where: Path) -> Errors:
    """What a job is to do, which a CronJob says of the jobs to come."""
    yield from checked("io.k8s.api.batch.v1.JobSpec", spec, where)
    if spec.completionMode is not None and spec.completionMode not in _COMPLETION_MODES:
        yield unsupported(where / "completionMode", spec.completionMode, _COMPLETION_MODES)
    elif spec.completionMode == "Indexed" and spec.completions is None:
        yield required(where / "completions", "when completion mode is Indexed")
    if spec.completionMode == "Indexed":
        yield from _indexed_parallelism(spec, where / "parallelism")
    if spec.podFailurePolicy is not None:
        yield from failure_policy(spec, where / "podFailurePolicy")
    if spec.scheduling is not None:
        yield from _gang_size(spec, where / "scheduling" / "schedulingPolicy" / "gang" / "minCount")
    yield from pod_template(spec.template, where / "template")
    path, policy = where / "template" / "spec" / "restartPolicy", spec.template.spec.restartPolicy
    if policy == "Always":
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in _JOB_RESTARTS:
        yield unsupported(path, policy, _JOB_RESTARTS)
    elif spec.podFailurePolicy is not None and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _gang_size(spec: batch.JobSpec, path: Path) -> Errors:
    """A gang of a job may not need more pods than the job has at once."""
    policy = spec.scheduling.schedulingPolicy if spec.scheduling is not None else None
    size = policy.gang.minCount if policy is not None and policy.gang is not None else None
    if size is not None and spec.parallelism is not None and size > spec.parallelism:
        yield invalid(path, size, f"must be less than or equal to parallelism ({spec.parallelism})")


# CronJob


def create_cron_job(cron_job: batch.CronJob, context: Context) -> Errors:
    if len(cron_job.metadata.name) > _CRON_NAME_MAX:  # eleven characters more make the name of a job
        text = f"must be no more than {_CRON_NAME_MAX} characters"
        yield invalid(METADATA / "name", cron_job.metadata.name, text)
    yield from _cron_job_spec(cron_job.spec, None)


def update_cron_job(cron_job: batch.CronJob, old: batch.CronJob, context: Context) -> Errors:
    yield from _cron_job_spec(cron_job.spec, old.spec)


def _indexed_parallelism(spec: batch.JobSpec, path: Path) -> Errors:
    parallelism = spec.parallelism or 0
    if parallelism > _MOST_INDEXED:
        yield invalid(
            path, parallelism, f"must be less than or equal to {_MOST_INDEXED} when completionMode is Indexed"
        )
    many = (spec.completions or 0) > _MOST_INDEXED and spec.backoffLimitPerIndex is not None
    if many and parallelism > _MOST_OF_MANY:
        text = f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MOST_INDEXED}"
        yield invalid(path, parallelism, f"{text} and used with backoff limit per index")


def _cron_job_spec(spec: batch.CronJobSpec, old: batch.CronJobSpec | None) -> Errors:
    if not spec.schedule:
        yield required(SPEC / "schedule")
    else:
        yield from _schedule(spec, old)
    yield from at_least(spec.startingDeadlineSeconds, 0, SPEC / "startingDeadlineSeconds")
    if spec.timeZone is not None:
        yield from _time_zone(spec.timeZone, SPEC / "timeZone")
    yield from required_one_of(spec.concurrencyPolicy, _CONCURRENCY, SPEC / "concurrencyPolicy")
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from at_least(getattr(spec, field), 0, SPEC / field)
    path = SPEC / "jobTemplate" / "spec"
    if spec.jobTemplate.spec.manualSelector:
        yield unsupported(path / "manualSelector", True, ("nil", "false"))
    yield from _job_work(spec.jobTemplate.spec, path)


def _schedule(spec: batch.CronJobSpec, old: batch.CronJobSpec | None) -> Errors:
    path = SPEC / "schedule"
    if "TZ" in spec.schedule:
        if spec.timeZone is not None:
            yield invalid(path, spec.schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
        elif old is None or "TZ" not in old.schedule:
            yield invalid(path, spec.schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
        return
    try:
        cron.parse(spec.schedule)
    except cron.ScheduleError as error:
        yield invalid(path, spec.schedule, str(error))


def _time_zone(name: str, path: Path) -> Errors:
    if not name:
        yield invalid(path, name, "timeZone must be nil or non-empty string")
    elif name.lower() == "local":
        yield invalid(
            path, name, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
    else:
        try:
            ZoneInfo(name)
        except (OSError, ValueError, KeyError):
            yield invalid(path, name, f"unknown time zone {name}")
