"""Rules for workloads and PodDisruptionBudgets that cannot be expressed as steps."""

from __future__ import annotations

from dray.api.errors import FieldError, forbidden, invalid, required, unsupported
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.selectors import label_selector as matcher
from dray.api.types import apps, batch, core, meta
from dray.api.validation.context import Context
from dray.api.validation.placement import label_selector
from dray.api.validation.pods import pod_template

_NO_MATCH = "`selector` does not match template `labels`"
_TITLES = {"deployment": "ReplicaSet", "daemonset": "DaemonSet", "replicaset": "ReplicaSet"}
_TITLES |= {"replicationcontroller": "ReplicationController", "statefulset": "StatefulSet"}
_JOB_RESTARTS = ("OnFailure", "Never")

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


# Job and CronJob


def own_selector(spec: batch.JobSpec, path: Path) -> Errors:
    """Yield errors if the selector of a Job is missing, invalid, or does not match its pods."""
    faults = list(label_selector(spec.selector, path / "selector"))
    if spec.selector is None:
        yield required(path / "selector")
    yield from faults
    if not faults:
        yield from _matched(spec.selector, spec.template, path / "template")


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


# Pod failure policy of a Job: rules by exit code or by condition
