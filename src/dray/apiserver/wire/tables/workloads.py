"""Rows of what runs or counts pods: sets, jobs, revisions, budgets, autoscalers, pod templates, services."""

from __future__ import annotations

from dray.api.selectors import AnySelector, spelled_out
from dray.api.types import apps, autoscaling, batch, core, policy
from dray.apiserver.wire.tables.printer import AGE, NAME, Cell, Printer, counts, plain, wide
from dray.apiserver.wire.tables.text import NONE, age, duration, images, labels, names, seconds, selector

_TEMPLATE = wide("Containers", "Images", "Selector")
_JOB_STATES = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _template(template: core.PodTemplateSpec, chosen: AnySelector) -> list[Cell]:
    return [names(template.spec.containers), images(template.spec.containers), selector(spelled_out(chosen))]


def _deployment(obj: apps.Deployment, now: float) -> list[Cell]:
    status = obj.status
    return [
        obj.metadata.name,
        f"{status.readyReplicas}/{obj.spec.replicas or 0}",
        status.updatedReplicas,
        status.availableReplicas,
        age(obj.metadata.creationTimestamp, now),
        *_template(obj.spec.template, obj.spec.selector),
    ]


def _replica_set(obj: apps.ReplicaSet | core.ReplicationController, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        obj.spec.replicas or 0,
        obj.status.replicas,
        obj.status.readyReplicas,
        age(obj.metadata.creationTimestamp, now),
        *_template(obj.spec.template, obj.spec.selector),
    ]


def _daemon_set(obj: apps.DaemonSet, now: float) -> list[Cell]:
    status = obj.status
    return [
        obj.metadata.name,
        status.desiredNumberScheduled,
        status.currentNumberScheduled,
        status.numberReady,
        status.updatedNumberScheduled,
        status.numberAvailable,
        labels(obj.spec.template.spec.nodeSelector),
        age(obj.metadata.creationTimestamp, now),
        *_template(obj.spec.template, obj.spec.selector),
    ]


def _job_state(obj: batch.Job) -> str:
    held = {c.type for c in obj.status.conditions if c.status == "True"}
    for state in _JOB_STATES:
        if state == "Suspended" and obj.metadata.deletionTimestamp:
            return "Terminating"
        if state in held:
            return state
    return "Running"


def _completions(obj: batch.Job) -> str:
    done, parallelism = obj.status.succeeded, obj.spec.parallelism or 0
    if obj.spec.completions is not None:
        return f"{done}/{obj.spec.completions}"
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(status: batch.JobStatus, now: float) -> str:
    if not status.startTime:
        return ""
    end = seconds(status.completionTime) if status.completionTime else now
    return duration(end - seconds(status.startTime))


def _job(obj: batch.Job, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        _job_state(obj),
        _completions(obj),
        _job_duration(obj.status, now),
        age(obj.metadata.creationTimestamp, now),
        *_template(obj.spec.template, obj.spec.selector),
    ]


def _stateful_set(obj: apps.StatefulSet, now: float) -> list[Cell]:
    containers = obj.spec.template.spec.containers
    return [
        obj.metadata.name,
        f"{obj.status.readyReplicas}/{obj.spec.replicas or 0}",
        age(obj.metadata.creationTimestamp, now),
        names(containers),
        images(containers),
    ]


def _cron_job(obj: batch.CronJob, now: float) -> list[Cell]:
    spec, last = obj.spec, obj.status.lastScheduleTime
    return [
        obj.metadata.name,
        spec.schedule,
        spec.timeZone or NONE,
        str(bool(spec.suspend)),
        len(obj.status.active),
        age(last, now) if last else NONE,
        age(obj.metadata.creationTimestamp, now),
        *_template(spec.jobTemplate.spec.template, spec.jobTemplate.spec.selector),
    ]


def _revision(obj: apps.ControllerRevision, now: float) -> list[Cell]:
    owner = next((owner for owner in obj.metadata.ownerReferences if owner.controller), None)
    controller = NONE
    if owner is not None:
        group, slash, _ = owner.apiVersion.partition("/")
        controller = f"{owner.kind.lower()}{'.' + group if slash else ''}/{owner.name}"
    return [obj.metadata.name, controller, obj.revision, age(obj.metadata.creationTimestamp, now)]


def _budget(obj: policy.PodDisruptionBudget, now: float) -> list[Cell]:
    bounds = (obj.spec.minAvailable, obj.spec.maxUnavailable)
    return [
        obj.metadata.name,
        *("N/A" if bound is None else str(bound) for bound in bounds),
        obj.status.disruptionsAllowed,
        age(obj.metadata.creationTimestamp, now),
    ]


def _autoscaler(obj: autoscaling.HorizontalPodAutoscaler, now: float) -> list[Cell]:
    target = obj.spec.scaleTargetRef
    return [
        obj.metadata.name,
        f"{target.kind}/{target.name}",
        ", ".join(map(_metric, obj.spec.metrics)) or NONE,
        "<unset>" if obj.spec.minReplicas is None else str(obj.spec.minReplicas),
        obj.spec.maxReplicas,
        obj.status.currentReplicas,
        age(obj.metadata.creationTimestamp, now),
    ]


def _metric(metric: autoscaling.MetricSpec) -> str:
    """What is aimed at; nothing here measures what is."""
    source = metric.resource or metric.containerResource or metric.pods or metric.object or metric.external
    if source is None:
        return "<unknown type>"
    target = source.target
    if target.averageUtilization is not None:
        name = f"{getattr(source, 'name', '')}: " if metric.resource or metric.containerResource else ""
        return f"{name}<unknown>/{target.averageUtilization}%"
    return f"<unknown>/{target.averageValue or target.value}"


def _pod_template(obj: core.PodTemplate, now: float) -> list[Cell]:
    containers = obj.template.spec.containers
    return [obj.metadata.name, names(containers), images(containers), labels(obj.template.metadata.labels)]


def _external_address(obj: core.Service) -> str:
    spec = obj.spec
    if spec.type == "ExternalName":
        return spec.externalName
    addresses = list(spec.externalIPs)
    if spec.type == "LoadBalancer":
        addresses = [i.ip or i.hostname for i in obj.status.loadBalancer.ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _port(port: core.ServicePort) -> str:
    node = f":{port.nodePort}" if port.nodePort else ""
    return f"{port.port}{node}/{port.protocol}"


def _service(obj: core.Service, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        obj.spec.type,
        obj.spec.clusterIPs[0] if obj.spec.clusterIPs else obj.spec.clusterIP or NONE,
        _external_address(obj),
        ",".join(map(_port, obj.spec.ports)) or NONE,
        age(obj.metadata.creationTimestamp, now),
        labels(obj.spec.selector),
    ]


DEPLOYMENT = Printer((NAME, *plain("Ready", "Up-to-date", "Available"), AGE, *_TEMPLATE), _deployment)
REPLICA_SET = Printer((NAME, *counts("Desired", "Current", "Ready"), AGE, *_TEMPLATE), _replica_set)
DAEMON_SET = Printer(
    (
        NAME,
        *counts("Desired", "Current", "Ready", "Up-to-date", "Available"),
        *plain("Node Selector"),
        AGE,
        *_TEMPLATE,
    ),
    _daemon_set,
)
JOB = Printer((NAME, *plain("Status", "Completions", "Duration"), AGE, *_TEMPLATE), _job)
STATEFUL_SET = Printer((NAME, *plain("Ready"), AGE, *wide("Containers", "Images")), _stateful_set)
CRON_JOB = Printer(
    (NAME, *plain("Schedule", "Timezone", "Suspend"), *counts("Active"), *plain("Last Schedule"), AGE, *_TEMPLATE),
    _cron_job,
)
REVISION = Printer((NAME, *plain("Controller"), *counts("Revision"), AGE), _revision)
BUDGET = Printer((NAME, *plain("Min Available", "Max Unavailable"), *counts("Allowed Disruptions"), AGE), _budget)
AUTOSCALER = Printer(
    (NAME, *plain("Reference", "Targets", "MinPods"), *counts("MaxPods", "Replicas"), AGE), _autoscaler
)
POD_TEMPLATE = Printer((NAME, *plain("Containers", "Images", "Pod Labels")), _pod_template)
SERVICE = Printer(
    (NAME, *plain("Type", "Cluster-IP", "External-IP", "Port(s)"), AGE, *wide("Selector")),
    _service,
)
