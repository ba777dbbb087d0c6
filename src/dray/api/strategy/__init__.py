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

from dray.api.conversion import home
from dray.api.gates import FeatureGates
from dray.api.resources import ADMISSION, DRA, SCHEDULING, Resource
from dray.api.strategy import creation, updates
from dray.api.strategy.deprecation import deprecation
from dray.api.strategy.guards import drop_disabled
from dray.api.strategy.typed import STANDS
from dray.api.strategy.warnings import warnings
from dray.api.wire import Wire

__all__ = [
    "allows_unconditional_update",
    "deprecation",
    "prepare_create",
    "prepare_status",
    "prepare_update",
    "stands",
    "warnings",
]

Tree = dict[str, Any]

# Kinds whose metadata.generation counts, and the field that it counts the changes of.
_COUNTED: Mapping[tuple[str, str], str] = {
    ("", "Pod"): "spec",
    ("", "PodTemplate"): "template",
    ("", "ReplicationController"): "spec",
    ("apps", "DaemonSet"): "spec",
    ("apps", "Deployment"): "spec",
    ("apps", "ReplicaSet"): "spec",
    ("batch", "Job"): "spec",
    (ADMISSION, "ValidatingAdmissionPolicy"): "spec",
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): "spec",
    (ADMISSION, "ValidatingWebhookConfiguration"): "webhooks",
    (DRA, "DeviceClass"): "spec",
    (DRA, "DeviceTaintRule"): "spec",
    (DRA, "ResourceSlice"): "spec",
    (SCHEDULING, "PriorityClass"): "",
}
_CREATE: Mapping[tuple[str, str], Callable[[Tree], None]] = {
    ("", "Namespace"): creation.namespace,
    ("", "Pod"): creation.pod,
    ("", "Service"): creation.service,
    ("batch", "Job"): creation.job,
    (SCHEDULING, "PodGroup"): creation.pod_group,
}
_UPDATE: Mapping[tuple[str, str, str], Callable[[Tree, Any], None]] = {
    ("", "Namespace", ""): updates.namespace,
    ("", "Namespace", "finalize"): updates.namespace_finalize,
    ("", "Pod", ""): updates.pod,
    ("", "Pod", "status"): updates.pod_status,
    ("", "Service", ""): updates.service,
    (DRA, "DeviceTaintRule", ""): updates.taint_rule,
    (DRA, "ResourceClaim", "status"): updates.claim_status,
    (SCHEDULING, "PodGroup", ""): updates.pod_group,
}
# Status writers of these kinds may change metadata too: kubelets annotate nodes, controllers mark pods.
_STATUS_KEEPS_METADATA = frozenset(
    {"DaemonSet", "Deployment", "Job", "Namespace", "Node", "Pod", "ReplicaSet", "ReplicationController"}
)
_SET_BY_AUTHOR = frozenset({"Node"})  # a node registers itself together with its status
_OWN_STATUS = ("annotations", "finalizers", "labels", "ownerReferences", "deletionGracePeriodSeconds")


def prepare_create(resource: Resource, tree: Tree, gates: FeatureGates) -> None:
    """Make a new object what the server lets it be, in place."""
    key = home(resource).group, resource.kind
    metadata = tree.setdefault("metadata", {})
    metadata.pop("generation", None)
    if key in _COUNTED:
        metadata["generation"] = 1
    if "status" in resource.subresources and resource.kind not in _SET_BY_AUTHOR:
        tree.pop("status", None)
    drop_disabled(resource.kind, tree, None, gates)
    if prepare := _CREATE.get(key):
        prepare(tree)


def prepare_update(resource: Resource, tree: Tree, old: Wire, subresource: str, gates: FeatureGates) -> None:
    """Undo, in place, what an update through a (sub)resource may not change."""
    key = home(resource).group, resource.kind
    if subresource == "status":
        _keep_all_but_status(resource, tree, old)
    elif "status" in resource.subresources:
        _keep(tree, old, "status")
    drop_disabled(resource.kind, tree, old, gates)
    if prepare := _UPDATE.get((*key, subresource)):
        prepare(tree, old)
    _count(key, tree, old, written="status" if subresource == "status" else "all")


def prepare_status(resource: Resource, tree: Tree, old: Wire, gates: FeatureGates) -> None:
    """`prepare_update` for a tree that holds nothing but a status, written through its subresource."""
    drop_disabled(resource.kind, tree, old, gates)
    if prepare := _UPDATE.get((home(resource).group, resource.kind, "status")):
        prepare(tree, old)


def stands(resource: Resource, status: Wire, gates: FeatureGates) -> bool:
    """Whether `prepare_status` would leave alone what a typed status says; no where that is not known."""
    judge = STANDS.get((resource.group, resource.kind))
    return judge is not None and judge(status, gates)


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
        part = {counted: tree[counted]} if counted in tree else {}
        changed = getattr(msgspec.convert(part, type(old)), counted) != getattr(old, counted)
        # Rollouts are steered by annotations too.
        if key == ("apps", "Deployment") and (metadata.get("annotations") or {}) != old.metadata.annotations:
            changed = True
    metadata["generation"] = old.metadata.generation + changed


def allows_unconditional_update(resource: Resource, version: str) -> bool:
    """Whether an update may leave out the resourceVersion that it is based on."""
    if resource.kind == "DeviceTaintRule":
        return version != "v1"
    if resource.kind == "ResourcePoolStatusRequest":
        return version != "v1alpha3"
    return resource.group not in (ADMISSION, "coordination.k8s.io")
