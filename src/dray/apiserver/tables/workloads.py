"""Rows of what runs pods: deployments, replica sets, daemon sets, jobs, pod templates, services."""

from __future__ import annotations

from dray.api.selectors import AnySelector, spelled_out
from dray.api.types import apps, batch, core
from dray.apiserver.tables.printer import AGE, NAME, Cell, Printer, counts, plain, wide
from dray.apiserver.tables.text import NONE, age, duration, images, labels, names, seconds, selector

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
POD_TEMPLATE = Printer((NAME, *plain("Containers", "Images", "Pod Labels")), _pod_template)
SERVICE = Printer(
    (NAME, *plain("Type", "Cluster-IP", "External-IP", "Port(s)"), AGE, *wide("Selector")),
    _service,
)
