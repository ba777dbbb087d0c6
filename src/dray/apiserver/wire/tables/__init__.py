"""Server-side printing: what `kubectl get` shows, as a Table of meta.k8s.io/v1.

Takes the typed objects that the cache holds and the current time; gives a tree that msgspec encodes, structs inside
included. Left out: which requests want a table, and how the answer is written.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.errors import BadRequest
from dray.api.resources import Resource
from dray.api.types import (
    admissionregistration,
    apiextensions,
    apiregistration,
    apps,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    discovery,
    events,
    flowcontrol,
    networking,
    node,
    policy,
    rbac,
    resource,
    scheduling,
    storage,
)
from dray.api.wire import Wire
from dray.apiserver.wire.tables import cluster, custom, devices, network, pods, volumes, workloads
from dray.apiserver.wire.tables.printer import Printer

META_V1 = "meta.k8s.io/v1"
INCLUDE = ("Metadata", "None", "Object")

PRINTERS: dict[type[Wire], Printer] = {
    core.Pod: pods.POD,
    core.PodTemplate: workloads.POD_TEMPLATE,
    core.Service: workloads.SERVICE,
    apps.Deployment: workloads.DEPLOYMENT,
    apps.ReplicaSet: workloads.REPLICA_SET,
    core.ReplicationController: workloads.REPLICA_SET,
    apps.DaemonSet: workloads.DAEMON_SET,
    batch.Job: workloads.JOB,
    core.Node: cluster.NODE,
    core.Namespace: cluster.NAMESPACE,
    core.Event: cluster.EVENT,
    events.Event: cluster.NEW_EVENT,
    core.ResourceQuota: cluster.QUOTA,
    core.ConfigMap: cluster.CONFIG_MAP,
    core.Secret: cluster.SECRET,
    core.ServiceAccount: cluster.SERVICE_ACCOUNT,
    coordination.Lease: cluster.LEASE,
    rbac.Role: cluster.ROLE,
    rbac.ClusterRole: cluster.ROLE,
    rbac.RoleBinding: cluster.BINDING,
    rbac.ClusterRoleBinding: cluster.BINDING,
    scheduling.PriorityClass: cluster.PRIORITY_CLASS,
    admissionregistration.ValidatingWebhookConfiguration: cluster.WEBHOOKS,
    admissionregistration.ValidatingAdmissionPolicy: cluster.POLICY,
    admissionregistration.ValidatingAdmissionPolicyBinding: cluster.POLICY_BINDING,
    apps.StatefulSet: workloads.STATEFUL_SET,
    apps.ControllerRevision: workloads.REVISION,
    batch.CronJob: workloads.CRON_JOB,
    policy.PodDisruptionBudget: workloads.BUDGET,
    autoscaling.HorizontalPodAutoscaler: workloads.AUTOSCALER,
    core.LimitRange: cluster.ROLE,
    apiextensions.CustomResourceDefinition: cluster.DEFINITION,
    core.Endpoints: network.ENDPOINTS,
    discovery.EndpointSlice: network.SLICE,
    networking.NetworkPolicy: network.POLICY,
    networking.Ingress: network.INGRESS,
    networking.IngressClass: network.INGRESS_CLASS,
    networking.ServiceCIDR: network.SERVICE_RANGE,
    networking.IPAddress: network.ADDRESS,
    core.PersistentVolume: volumes.VOLUME,
    core.PersistentVolumeClaim: volumes.CLAIM,
    storage.StorageClass: volumes.CLASS,
    storage.CSIDriver: volumes.DRIVER,
    storage.CSINode: volumes.NODE,
    storage.CSIStorageCapacity: volumes.CAPACITY,
    storage.VolumeAttachment: volumes.ATTACHMENT,
    storage.VolumeAttributesClass: volumes.ATTRIBUTES_CLASS,
    node.RuntimeClass: cluster.RUNTIME,
    certificates.CertificateSigningRequest: cluster.SIGNING_REQUEST,
    flowcontrol.FlowSchema: cluster.FLOW_SCHEMA,
    flowcontrol.PriorityLevelConfiguration: cluster.PRIORITY_LEVEL,
    apiregistration.APIService: cluster.API_SERVICE,
    admissionregistration.MutatingWebhookConfiguration: cluster.WEBHOOKS,
    admissionregistration.MutatingAdmissionPolicy: cluster.MUTATING_POLICY,
    admissionregistration.MutatingAdmissionPolicyBinding: cluster.POLICY_BINDING,
    resource.ResourceClaim: devices.CLAIM,
    resource.ResourceSlice: devices.SLICE,
    resource.DeviceTaintRule: devices.TAINT_RULE,
    resource.ResourcePoolStatusRequest: devices.POOL_STATUS,
    scheduling.PodGroup: devices.POD_GROUP,
}


def printer(resource: Resource, version: str = "") -> Printer:
    """What prints the objects of a resource."""
    if resource.custom is not None:
        return custom.printer(resource.custom.versions[version or resource.stored])
    return PRINTERS.get(resource.type, devices.NAME_AND_AGE)


def columns(prints: Printer) -> list[dict[str, Any]]:
    """The column definitions of a kind."""
    return [msgspec.to_builtins(column) for column in prints.columns]


def include_policy(text: str) -> str:
    """The `includeObject` of a request."""
    if text and text not in INCLUDE:
        raise BadRequest(f"includeObject: Invalid value: must be one of {', '.join(INCLUDE)}, or empty, not {text!r}")
    return text or "Metadata"


def head(prints: Printer, metadata: dict[str, Any], header: bool = True) -> dict[str, Any]:
    """A Table without its rows.

    `metadata` is the list's, or for one object its resourceVersion. `header=False` leaves the column definitions out, as
    in all events of a watch but the first.
    """
    definitions = columns(prints) if header else None
    return {"kind": "Table", "apiVersion": META_V1, "metadata": metadata, "columnDefinitions": definitions}


def row(prints: Printer, obj: Wire, now: float, include: str = "Metadata", full: Any = None) -> dict[str, Any]:
    """The row of an object; `now` in seconds since the epoch.

    `full` is what the row carries for `include="Object"`: a tree or `msgspec.Raw` in the version asked for; without it
    the typed object itself.
    """
    answer: dict[str, Any] = {"cells": prints.cells(obj, now)}
    if prints.conditions and (conditions := prints.conditions(obj)):
        answer["conditions"] = conditions
    if include == "Metadata":
        answer["object"] = partial(obj)
    else:
        answer["object"] = (obj if full is None else full) if include == "Object" else None
    return answer


def partial(obj: Wire) -> dict[str, Any]:
    """The object's PartialObjectMetadata."""
    metadata = obj.metadata  # type: ignore[attr-defined]  # every kind has it, their common type does not say so
    return {"kind": "PartialObjectMetadata", "apiVersion": META_V1, "metadata": metadata}


def partial_list(metadata: dict[str, Any]) -> dict[str, Any]:
    """A PartialObjectMetadataList without its items."""
    return {"kind": "PartialObjectMetadataList", "apiVersion": META_V1, "metadata": metadata}
