"""What the server decides about an object, whatever its author wrote.

Clients of the main resource do not write status, clients of `/status` write nothing else; a generation counts the
changes of a spec; fields whose feature gate is off vanish unless the object already uses them. All on trees of the
stored version, after defaults and admission, before validation. Left out: names, uids and times (the server's), and
refusing anything (`validation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from dray.api.gates import FeatureGates
from dray.api.resources import ADMISSION, DRA, EXTENSIONS, FLOWCONTROL, NETWORKING, REGISTRATION, SCHEDULING, Resource
from dray.api.strategy import creation, custom, updates
from dray.api.strategy.deprecation import deprecation
from dray.api.strategy.guards import NOTHING_DROPPED, Dropped, drop_disabled, has_guards, is_guarded
from dray.api.strategy.typed import STANDS
from dray.api.strategy.warnings import unused, warnings
from dray.api.wire import Tree, Wire

__all__ = [
    "Dropped",
    "adds_nothing",
    "allows_unconditional_update",
    "deprecation",
    "prepare_create",
    "prepare_update",
    "stands",
    "unused",
    "warnings",
]

# Kinds whose metadata.generation counts, and the field that it counts the changes of.
_COUNTED: Mapping[tuple[str, str], str | tuple[str, ...]] = {
    ("", "Pod"): "spec",
    ("", "PodTemplate"): "template",
    ("", "ReplicationController"): "spec",
    ("apps", "DaemonSet"): "spec",
    ("apps", "Deployment"): "spec",
    ("apps", "ReplicaSet"): "spec",
    ("apps", "StatefulSet"): "spec",
    ("autoscaling", "HorizontalPodAutoscaler"): "spec",
    ("batch", "CronJob"): "spec",
    ("batch", "Job"): "spec",
    ("policy", "PodDisruptionBudget"): "spec",
    ("discovery.k8s.io", "EndpointSlice"): ("endpoints", "ports"),
    (ADMISSION, "MutatingAdmissionPolicy"): "spec",
    (ADMISSION, "MutatingAdmissionPolicyBinding"): "spec",
    (ADMISSION, "MutatingWebhookConfiguration"): "webhooks",
    (ADMISSION, "ValidatingAdmissionPolicy"): "spec",
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): "spec",
    (ADMISSION, "ValidatingWebhookConfiguration"): "webhooks",
    (DRA, "DeviceClass"): "spec",
    (DRA, "DeviceTaintRule"): "spec",
    (DRA, "ResourceSlice"): "spec",
    (EXTENSIONS, "CustomResourceDefinition"): "spec",
    (FLOWCONTROL, "FlowSchema"): "spec",
    (FLOWCONTROL, "PriorityLevelConfiguration"): "spec",
    (NETWORKING, "Ingress"): "spec",
    (NETWORKING, "IngressClass"): "spec",
    (NETWORKING, "NetworkPolicy"): "spec",
    (SCHEDULING, "PriorityClass"): "",
}
_CREATE: Mapping[tuple[str, str], Callable[[Tree], None]] = {
    ("", "Namespace"): creation.namespace,
    ("", "PersistentVolume"): creation.volume,
    ("", "PersistentVolumeClaim"): creation.volume_claim,
    ("", "Pod"): creation.pod,
    ("", "Service"): creation.service,
    ("apps", "DaemonSet"): creation.daemon_set,
    ("batch", "Job"): creation.job,
    (EXTENSIONS, "CustomResourceDefinition"): creation.definition,
    (REGISTRATION, "APIService"): creation.api_service,
    (SCHEDULING, "PodGroup"): creation.pod_group,
}
_CERTIFICATES = "certificates.k8s.io"
_UPDATE: Mapping[tuple[str, str, str], Callable[[Tree, Any], None]] = {
    ("", "Namespace", ""): updates.namespace,
    ("", "Namespace", "finalize"): updates.namespace_finalize,
    ("", "Pod", ""): updates.pod,
    ("", "Pod", "ephemeralcontainers"): updates.pod_ephemeral_containers,
    ("", "Pod", "resize"): updates.pod_resize,
    ("", "Pod", "status"): updates.pod_status,
    ("", "Service", ""): updates.service,
    ("apps", "DaemonSet", ""): updates.daemon_set,
    (_CERTIFICATES, "CertificateSigningRequest", ""): updates.signing_request,
    (_CERTIFICATES, "CertificateSigningRequest", "approval"): updates.signing_approval,
    (_CERTIFICATES, "CertificateSigningRequest", "status"): updates.signing_status,
    (DRA, "DeviceTaintRule", ""): updates.taint_rule,
    (DRA, "ResourceClaim", "status"): updates.claim_status,
    (EXTENSIONS, "CustomResourceDefinition", ""): updates.definition,
    (SCHEDULING, "PodGroup", ""): updates.pod_group,
}
# Status writers of these kinds may change metadata too: kubelets annotate nodes, controllers mark pods.
_STATUS_KEEPS_METADATA = frozenset(
    {
        "CronJob",
        "DaemonSet",
        "Deployment",
        "HorizontalPodAutoscaler",
        "Ingress",
        "Job",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
    }
)
# Kinds whose updates must name the version that they are based on.
_CONDITIONAL_GROUPS = frozenset({ADMISSION, EXTENSIONS, REGISTRATION, "coordination.k8s.io", "node.k8s.io", "policy"})
_CONDITIONAL_KINDS = frozenset({"CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment"})
_STATUS_PARTS = ("status", "approval")  # subresources through which nothing but the status changes
_SET_BY_AUTHOR = frozenset({"Node"})  # a node registers itself together with its status
_OWN_STATUS = ("annotations", "finalizers", "labels", "ownerReferences", "deletionGracePeriodSeconds")


def prepare_create(resource: Resource, tree: Tree, gates: FeatureGates) -> tuple[Dropped, ...]:
    """Make a new object what the server lets it be, in place; answers the fields for which a gate is off."""
    if resource.custom is not None:
        custom.prepare_create(resource, tree)
        return NOTHING_DROPPED
    key = resource.home.group, resource.kind
    metadata = tree.setdefault("metadata", {})
    metadata.pop("generation", None)
    if key in _COUNTED:
        metadata["generation"] = 1
    if "status" in resource.subresources and resource.kind not in _SET_BY_AUTHOR:
        tree.pop("status", None)
    dropped = drop_disabled(resource.kind, tree, None, gates)
    if prepare := _CREATE.get(key):
        prepare(tree)
    return dropped


def adds_nothing(resource: Resource) -> bool:
    """Whether `prepare_create` leaves every object of a kind as it is, whatever the gates."""
    key = resource.home.group, resource.kind
    return resource.custom is None and (
        key not in _COUNTED and key not in _CREATE and "status" not in resource.subresources and not has_guards(key[1])
    )


def prepare_update(
    resource: Resource, tree: Tree, old: Wire, subresource: str, gates: FeatureGates
) -> tuple[Dropped, ...]:
    """Undo, in place, what an update through a (sub)resource may not change; answers the fields without a gate."""
    if resource.custom is not None:
        custom.prepare_update(resource, tree, old, subresource)
        return NOTHING_DROPPED
    key = resource.home.group, resource.kind
    if subresource in _STATUS_PARTS:
        _keep_all_but_status(resource, tree, old)
    elif "status" in resource.subresources:
        _keep(tree, old, "status")
    dropped = drop_disabled(resource.kind, tree, old, gates)
    if prepare := _UPDATE.get((*key, subresource)):
        prepare(tree, old)
    _count(key, tree, old, written="status" if subresource == "status" else "all")
    return dropped


def stands(resource: Resource, status: Wire, old: Any, gates: FeatureGates) -> bool:
    """Whether `prepare_update` would leave a typed status alone; no where that is not known."""
    key = resource.home.group, resource.kind
    if judge := STANDS.get(key):
        return judge(status, old.status, gates)
    return (*key, "status") not in _UPDATE and not is_guarded(resource.kind, gates)


def _keep(tree: Tree, old: Wire, name: str) -> None:
    value = getattr(old, name)
    if value is None:
        tree.pop(name, None)
    else:
        tree[name] = msgspec.to_builtins(value)


def _keep_all_but_status(resource: Resource, tree: Tree, old: Wire) -> None:
    _keep(tree, old, "spec")
    if resource.kind not in _STATUS_KEEPS_METADATA:
        before = msgspec.to_builtins(old.metadata)  # type: ignore[attr-defined]  # every kind has metadata
        metadata = tree.setdefault("metadata", {})
        for name in _OWN_STATUS:
            metadata.pop(name, None)
            if name in before:
                metadata[name] = before[name]


def _count(key: tuple[str, str], tree: Tree, old: Any, written: Literal["status", "all"]) -> None:
    """A generation grows with each change of what it counts, and with nothing else."""
    metadata = tree.setdefault("metadata", {})
    metadata.pop("generation", None)
    if not old.metadata.generation:
        return
    counted = _COUNTED.get(key, "") if written == "all" else ""
    changed = False
    if counted:
        fields = (counted,) if isinstance(counted, str) else counted
        part = msgspec.convert({name: tree[name] for name in fields if name in tree}, type(old))
        changed = any(getattr(part, name) != getattr(old, name) for name in fields)
        # Rollouts are steered by annotations too.
        if key == ("apps", "Deployment") and (metadata.get("annotations") or {}) != old.metadata.annotations:
            changed = True
    metadata["generation"] = old.metadata.generation + changed


def allows_unconditional_update(resource: Resource, version: str) -> bool:
    """Whether an update may leave out the resourceVersion that it is based on."""
    if resource.custom is not None:
        return False
    if resource.kind == "DeviceTaintRule":
        return version != "v1"
    if resource.group == SCHEDULING and resource.kind != "PriorityClass":
        return version == "v1alpha1"
    if resource.kind == "ResourcePoolStatusRequest":
        return version != "v1alpha3"
    return resource.group not in _CONDITIONAL_GROUPS and resource.kind not in _CONDITIONAL_KINDS
