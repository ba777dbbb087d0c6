"""Server-side printing: what `kubectl get` shows, as a Table of meta.k8s.io/v1.

Takes the typed objects that the cache holds and the current time; gives a tree that msgspec encodes, structs inside
included. Left out: which requests want a table, and how the answer is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dray.api.errors import BadRequest
from dray.api.resources import Resource
from dray.api.types import admissionregistration, apps, batch, coordination, core, events, rbac, resource, scheduling
from dray.api.wire import Wire
from dray.apiserver.tables import cluster, devices, pods, workloads
from dray.apiserver.tables.printer import Printer

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
    resource.ResourceClaim: devices.CLAIM,
    resource.ResourceSlice: devices.SLICE,
    resource.DeviceTaintRule: devices.TAINT_RULE,
    resource.ResourcePoolStatusRequest: devices.POOL_STATUS,
    scheduling.PodGroup: devices.POD_GROUP,
}


def columns(kind: type[Wire]) -> list[dict[str, Any]]:
    """The column definitions of a kind."""
    printer = PRINTERS.get(kind, devices.NAME_AND_AGE)
    return [msgspec.to_builtins(column) for column in printer.columns]


def include_policy(text: str) -> str:
    """The `includeObject` of a request."""
    if text and text not in INCLUDE:
        raise BadRequest(f"includeObject: Invalid value: must be one of {', '.join(INCLUDE)}, or empty, not {text!r}")
    return text or "Metadata"


def table(
    kind: Resource,
    objects: Sequence[Wire],
    *,
    now: float,
    include: str = "Metadata",
    full: Sequence[Any] = (),
    metadata: dict[str, Any] | None = None,
    header: bool = True,
) -> dict[str, Any]:
    """A Table of the objects; `now` in seconds since the epoch.

    `full` holds what a row carries for `include="Object"`, in the order of the objects: trees or `msgspec.Raw` in the
    version asked for; without it the typed objects themselves. `metadata` is the list's, or for one object its
    resourceVersion. `header=False` leaves the column definitions out, as in all events of a watch but the first.
    """
    rows = [_row(obj, now) for obj in objects]
    for position, row in enumerate(rows):
        if include == "Metadata":
            row["object"] = partial(objects[position])
        elif include == "Object":
            row["object"] = full[position] if full else objects[position]
        else:
            row["object"] = None
    return {
        "kind": "Table",
        "apiVersion": META_V1,
        "metadata": metadata or {},
        "columnDefinitions": columns(kind.type) if header else None,
        "rows": rows,
    }


def _row(obj: Wire, now: float) -> dict[str, Any]:
    printer = PRINTERS.get(type(obj), devices.NAME_AND_AGE)
    row: dict[str, Any] = {"cells": printer.cells(obj, now)}
    if printer.conditions and (conditions := printer.conditions(obj)):
        row["conditions"] = conditions
    return row


def partial(obj: Wire) -> dict[str, Any]:
    """The object's PartialObjectMetadata."""
    metadata = obj.metadata  # type: ignore[attr-defined]  # every kind has it, their common type does not say so
    return {"kind": "PartialObjectMetadata", "apiVersion": META_V1, "metadata": metadata}


def partial_list(objects: Sequence[Wire], metadata: dict[str, Any]) -> dict[str, Any]:
    """The objects' PartialObjectMetadataList."""
    items = [partial(obj) for obj in objects]
    return {"kind": "PartialObjectMetadataList", "apiVersion": META_V1, "metadata": metadata, "items": items}
