"""What makes pods: Deployment, ReplicaSet, ReplicationController, DaemonSet, Job."""

from __future__ import annotations

from dray.api.errors import forbidden, invalid, required, unsupported
from dray.api.selectors import label_selector as matcher
from dray.api.selectors import spelled_out
from dray.api.types import apps, batch, core, meta
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, at_least, unchanged
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.validation.paths import SPEC, Path
from dray.api.validation.placement import label_selector
from dray.api.validation.pods import pod_template

_NO_MATCH = "`selector` does not match template `labels`"
_JOB_RESTARTS = ("Never", "OnFailure")
_COMPLETION_MODES = ("Indexed", "NonIndexed")


def _selected_template(
    selector: meta.LabelSelector | None, template: core.PodTemplateSpec, kind: str, restarts: tuple[str, ...]
) -> Errors:
    """A selector that finds exactly the pods of the template."""
    path = SPEC / "selector"
    if selector is None:
        yield required(path)
    else:
        yield from label_selector(selector, path)
        if not selector.matchLabels and not selector.matchExpressions:
            yield invalid(path, selector, f"empty selector is invalid for {kind}")
        elif not matcher(selector).matches(template.metadata.labels):
            yield invalid(SPEC / "template" / "metadata" / "labels", template.metadata.labels, _NO_MATCH)
    yield from pod_template(template, SPEC / "template")
    spec = template.spec
    if spec.restartPolicy not in restarts:
        yield unsupported(SPEC / "template" / "spec" / "restartPolicy", spec.restartPolicy, restarts)
    if spec.activeDeadlineSeconds is not None:
        text = f"activeDeadlineSeconds in {_TITLES[kind]} is not Supported"
        yield forbidden(SPEC / "template" / "spec" / "activeDeadlineSeconds", text)


_TITLES = {
    "deployment": "ReplicaSet",
    "daemonset": "DaemonSet",
    "replicaset": "ReplicaSet",
    "replicationcontroller": "ReplicationController",
}


# Deployment


def create_deployment(deployment: apps.Deployment, context: Context) -> Errors:
    yield from metadata(deployment.metadata, namespaced=True)
    yield from _deployment_spec(deployment.spec)


def update_deployment(deployment: apps.Deployment, old: apps.Deployment, context: Context) -> Errors:
    yield from metadata_update(deployment.metadata, old.metadata)
    yield from _deployment_spec(deployment.spec)
    yield from unchanged(deployment.spec.selector, old.spec.selector, SPEC / "selector", deployment.spec.selector)


def _deployment_spec(spec: apps.DeploymentSpec) -> Errors:
    yield from at_least(spec.replicas, 0, SPEC / "replicas")
    yield from _selected_template(spec.selector, spec.template, "deployment", ("Always",))
    yield from _deployment_strategy(spec.strategy, SPEC / "strategy")
    for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from at_least(getattr(spec, field), 0, SPEC / field)
    if spec.progressDeadlineSeconds is not None and spec.progressDeadlineSeconds <= spec.minReadySeconds:
        text = "must be greater than minReadySeconds"
        yield invalid(SPEC / "progressDeadlineSeconds", spec.progressDeadlineSeconds, text)


def _deployment_strategy(strategy: apps.DeploymentStrategy, path: Path) -> Errors:
    if strategy.type == "Recreate":
        if strategy.rollingUpdate is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden(path / "rollingUpdate", text)
    elif strategy.type != "RollingUpdate":
        yield unsupported(path / "type", strategy.type, ("Recreate", "RollingUpdate"))
    elif strategy.rollingUpdate is None:
        yield required(path / "rollingUpdate", "this should be defaulted and never be nil")
    else:
        update = strategy.rollingUpdate
        yield from _scaled(update.maxUnavailable, path / "rollingUpdate" / "maxUnavailable")
        yield from _scaled(update.maxSurge, path / "rollingUpdate" / "maxSurge")
        if update.maxUnavailable in (0, "0%") and update.maxSurge in (0, "0%"):
            text = "may not be 0 when `maxSurge` is 0"
            yield invalid(path / "rollingUpdate" / "maxUnavailable", update.maxUnavailable, text)


def _scaled(value: int | str | None, path: Path) -> Errors:
    """A count or a percentage."""
    if isinstance(value, int):
        yield from at_least(value, 0, path)
    elif value is not None and not (value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit()):
        text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
        yield invalid(path, value, f"{text}used for validation is '[0-9]+%')")


# ReplicaSet, ReplicationController and DaemonSet


def create_replica_set(replica_set: apps.ReplicaSet, context: Context) -> Errors:
    yield from metadata(replica_set.metadata, namespaced=True)
    yield from _replica_set_spec(replica_set.spec)


def update_replica_set(replica_set: apps.ReplicaSet, old: apps.ReplicaSet, context: Context) -> Errors:
    yield from metadata_update(replica_set.metadata, old.metadata)
    yield from _replica_set_spec(replica_set.spec)
    yield from unchanged(replica_set.spec.selector, old.spec.selector, SPEC / "selector", replica_set.spec.selector)


def _replica_set_spec(spec: apps.ReplicaSetSpec) -> Errors:
    yield from at_least(spec.replicas, 0, SPEC / "replicas")
    yield from at_least(spec.minReadySeconds, 0, SPEC / "minReadySeconds")
    yield from _selected_template(spec.selector, spec.template, "replicaset", ("Always",))


def create_replication_controller(controller: core.ReplicationController, context: Context) -> Errors:
    yield from metadata(controller.metadata, namespaced=True)
    yield from _replication_controller_spec(controller.spec)


def update_replication_controller(
    controller: core.ReplicationController, old: core.ReplicationController, context: Context
) -> Errors:
    yield from metadata_update(controller.metadata, old.metadata)
    yield from _replication_controller_spec(controller.spec)


def _replication_controller_spec(spec: core.ReplicationControllerSpec) -> Errors:
    yield from at_least(spec.minReadySeconds, 0, SPEC / "minReadySeconds")
    yield from at_least(spec.replicas, 0, SPEC / "replicas")
    chosen = spelled_out(spec.selector) if spec.selector else None
    yield from _selected_template(chosen, spec.template, "replicationcontroller", ("Always",))


def create_daemon_set(daemon_set: apps.DaemonSet, context: Context) -> Errors:
    yield from metadata(daemon_set.metadata, namespaced=True)
    yield from _daemon_set_spec(daemon_set.spec)


def update_daemon_set(daemon_set: apps.DaemonSet, old: apps.DaemonSet, context: Context) -> Errors:
    yield from metadata_update(daemon_set.metadata, old.metadata)
    yield from _daemon_set_spec(daemon_set.spec)
    yield from unchanged(daemon_set.spec.selector, old.spec.selector, SPEC / "selector", daemon_set.spec.selector)


def _daemon_set_spec(spec: apps.DaemonSetSpec) -> Errors:
    yield from _selected_template(spec.selector, spec.template, "daemonset", ("Always",))
    yield from at_least(spec.minReadySeconds, 0, SPEC / "minReadySeconds")
    yield from at_least(spec.revisionHistoryLimit, 0, SPEC / "revisionHistoryLimit")
    path, strategy = SPEC / "updateStrategy", spec.updateStrategy
    if strategy.type not in ("OnDelete", "RollingUpdate"):
        yield unsupported(path / "type", strategy.type, ("OnDelete", "RollingUpdate"))
    elif strategy.type == "RollingUpdate":
        if strategy.rollingUpdate is None:
            yield required(path / "rollingUpdate")
        else:
            yield from _scaled(strategy.rollingUpdate.maxUnavailable, path / "rollingUpdate" / "maxUnavailable")
            yield from _scaled(strategy.rollingUpdate.maxSurge, path / "rollingUpdate" / "maxSurge")


# Job


def create_job(job: batch.Job, context: Context) -> Errors:
    yield from metadata(job.metadata, namespaced=True)
    yield from _job_spec(job.spec)


def update_job(job: batch.Job, old: batch.Job, context: Context) -> Errors:
    yield from metadata_update(job.metadata, old.metadata)
    yield from _job_spec(job.spec)
    spec, before = job.spec, old.spec
    if spec.completionMode != "Indexed" or spec.completions != spec.parallelism:
        yield from unchanged(spec.completions, before.completions, SPEC / "completions", spec.completions)
    yield from unchanged(spec.selector, before.selector, SPEC / "selector", spec.selector)
    yield from unchanged(spec.completionMode, before.completionMode, SPEC / "completionMode", spec.completionMode)
    suspended = bool(before.suspend) and old.status.startTime is None
    if not suspended:  # a job that has not begun may still be told where to run
        yield from unchanged(spec.template, before.template, SPEC / "template", spec.template)


def _job_spec(spec: batch.JobSpec) -> Errors:
    for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        yield from at_least(getattr(spec, field), 0, SPEC / field)
    if spec.selector is None:
        yield required(SPEC / "selector")
    else:
        yield from label_selector(spec.selector, SPEC / "selector")
        if not matcher(spec.selector).matches(spec.template.metadata.labels):
            yield invalid(SPEC / "template" / "metadata" / "labels", spec.template.metadata.labels, _NO_MATCH)
    if spec.completionMode not in _COMPLETION_MODES:
        yield unsupported(SPEC / "completionMode", spec.completionMode, _COMPLETION_MODES)
    elif spec.completionMode == "Indexed" and spec.completions is None:
        yield required(SPEC / "completions", "when completion mode is Indexed")
    yield from pod_template(spec.template, SPEC / "template")
    path, policy = SPEC / "template" / "spec" / "restartPolicy", spec.template.spec.restartPolicy
    if policy == "Always":
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in _JOB_RESTARTS:
        yield unsupported(path, policy, _JOB_RESTARTS)
