"""Whether an object may be stored: Kubernetes' rules, with its field paths, reasons and texts.

One function a kind and occasion, looked up in one table. Each gets typed objects and yields field errors in the order in
which Kubernetes reports them; nothing is changed here. Left out: what needs another object to decide (admission), and
types, unknown fields and formats of plain values (`decode`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from dray.api.errors import MOST_ERRORS, FieldError
from dray.api.resources import (
    ADMISSION,
    AUTHENTICATION,
    AUTHORIZATION,
    DRA,
    EXTENSIONS,
    FLOWCONTROL,
    NETWORKING,
    RBAC,
    REGISTRATION,
    SCHEDULING,
    STORAGE,
    Resource,
)
from dray.api.validation import (
    access,
    autoscaling,
    certificates,
    claims,
    cluster,
    core,
    csi,
    custom,
    definitions,
    device_kinds,
    flowcontrol,
    groups,
    ingress,
    network,
    pods,
    policies,
    slices,
    stateful,
    storage,
    workloads,
)
from dray.api.validation.context import (
    Complaint,
    Context,
    DerivedCheck,
    ExpressionUse,
    PolicyCheck,
    SelectorCheck,
)
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.wire import Wire

__all__ = [
    "Complaint",
    "Context",
    "DerivedCheck",
    "ExpressionUse",
    "PolicyCheck",
    "SelectorCheck",
    "validate_copy",
    "validate_create",
    "validate_update",
]

Create = Callable[[Any, Context], Iterable[FieldError]]
Update = Callable[[Any, Any, Context], Iterable[FieldError]]

_RULES: Mapping[tuple[str, str], tuple[Create, Update | None]] = {
    ("", "Binding"): (core.create_binding, None),
    ("", "ConfigMap"): (core.create_config_map, core.update_config_map),
    ("", "Endpoints"): (network.create_endpoints, network.update_endpoints),
    ("", "LimitRange"): (cluster.create_limits, cluster.update_limits),
    ("", "PersistentVolume"): (storage.create_volume, storage.update_volume),
    ("", "PersistentVolumeClaim"): (storage.create_claim, storage.update_claim),
    ("apps", "ControllerRevision"): (stateful.create_revision, stateful.update_revision),
    ("apps", "StatefulSet"): (stateful.create_stateful_set, stateful.update_stateful_set),
    ("autoscaling", "HorizontalPodAutoscaler"): (autoscaling.create_autoscaler, autoscaling.update_autoscaler),
    ("batch", "CronJob"): (workloads.create_cron_job, workloads.update_cron_job),
    ("certificates.k8s.io", "CertificateSigningRequest"): (
        certificates.create_request,
        certificates.update_request,
    ),
    ("discovery.k8s.io", "EndpointSlice"): (network.create_slice, network.update_slice),
    ("node.k8s.io", "RuntimeClass"): (cluster.create_runtime, cluster.update_runtime),
    ("policy", "PodDisruptionBudget"): (stateful.create_budget, stateful.update_budget),
    (ADMISSION, "MutatingAdmissionPolicy"): (policies.create_mutating_policy, policies.update_mutating_policy),
    (ADMISSION, "MutatingAdmissionPolicyBinding"): (policies.create_policy_binding, policies.update_policy_binding),
    (ADMISSION, "MutatingWebhookConfiguration"): (access.create_webhooks, access.update_webhooks),
    (EXTENSIONS, "CustomResourceDefinition"): (definitions.create_definition, definitions.update_definition),
    (FLOWCONTROL, "FlowSchema"): (flowcontrol.create_flow_schema, flowcontrol.update_flow_schema),
    (FLOWCONTROL, "PriorityLevelConfiguration"): (flowcontrol.create_priority_level, flowcontrol.update_priority_level),
    (NETWORKING, "IPAddress"): (network.create_address, network.update_address),
    (NETWORKING, "Ingress"): (ingress.create_ingress, ingress.update_ingress),
    (NETWORKING, "IngressClass"): (ingress.create_ingress_class, ingress.update_ingress_class),
    (NETWORKING, "NetworkPolicy"): (network.create_policy, network.update_policy),
    (NETWORKING, "ServiceCIDR"): (network.create_service_range, network.update_service_range),
    (REGISTRATION, "APIService"): (cluster.create_api_service, cluster.update_api_service),
    (STORAGE, "CSIDriver"): (csi.create_driver, csi.update_driver),
    (STORAGE, "CSINode"): (csi.create_node, csi.update_node),
    (STORAGE, "CSIStorageCapacity"): (csi.create_capacity, csi.update_capacity),
    (STORAGE, "StorageClass"): (csi.create_class, csi.update_class),
    (STORAGE, "VolumeAttachment"): (csi.create_attachment, csi.update_attachment),
    (STORAGE, "VolumeAttributesClass"): (csi.create_attributes_class, csi.update_attributes_class),
    ("", "Event"): (core.create_event, core.update_event),
    ("", "Namespace"): (core.create_namespace, core.update_namespace),
    ("", "Node"): (core.create_node, core.update_node),
    ("", "Pod"): (pods.create_pod, pods.update_pod),
    ("", "PodTemplate"): (pods.create_pod_template, pods.update_pod_template),
    ("", "ReplicationController"): (workloads.create_replication_controller, workloads.update_replication_controller),
    ("", "ResourceQuota"): (core.create_quota, core.update_quota),
    ("", "Secret"): (core.create_secret, core.update_secret),
    ("", "Service"): (core.create_service, core.update_service),
    ("", "ServiceAccount"): (core.create_account, core.update_account),
    ("apps", "DaemonSet"): (workloads.create_daemon_set, workloads.update_daemon_set),
    ("apps", "Deployment"): (workloads.create_deployment, workloads.update_deployment),
    ("apps", "ReplicaSet"): (workloads.create_replica_set, workloads.update_replica_set),
    ("batch", "Job"): (workloads.create_job, workloads.update_job),
    ("coordination.k8s.io", "Lease"): (core.create_lease, core.update_lease),
    ("events.k8s.io", "Event"): (core.create_new_event, core.update_event),
    (ADMISSION, "ValidatingAdmissionPolicy"): (policies.create_policy, policies.update_policy),
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): (policies.create_policy_binding, policies.update_policy_binding),
    (ADMISSION, "ValidatingWebhookConfiguration"): (access.create_webhooks, access.update_webhooks),
    (AUTHENTICATION, "TokenReview"): (access.create_token_review, None),
    (AUTHORIZATION, "LocalSubjectAccessReview"): (access.create_access_review, None),
    (AUTHORIZATION, "SelfSubjectAccessReview"): (access.create_access_review, None),
    (AUTHORIZATION, "SelfSubjectRulesReview"): (access.create_rules_review, None),
    (AUTHORIZATION, "SubjectAccessReview"): (access.create_access_review, None),
    (DRA, "DeviceClass"): (device_kinds.create_class, device_kinds.update_class),
    (DRA, "DeviceTaintRule"): (device_kinds.create_rule, device_kinds.update_rule),
    (DRA, "ResourceClaim"): (claims.create_claim, claims.update_claim),
    (DRA, "ResourceClaimTemplate"): (claims.create_template, claims.update_template),
    (DRA, "ResourcePoolStatusRequest"): (device_kinds.create_request, device_kinds.update_request),
    (DRA, "ResourceSlice"): (slices.create, slices.update),
    (RBAC, "ClusterRole"): (access.create_role, access.update_role),
    (RBAC, "ClusterRoleBinding"): (access.create_binding, access.update_binding),
    (RBAC, "Role"): (access.create_role, access.update_role),
    (RBAC, "RoleBinding"): (access.create_binding, access.update_binding),
    (SCHEDULING, "PodGroup"): (groups.create_group, groups.update_group),
    (SCHEDULING, "PriorityClass"): (groups.create_priority_class, groups.update_priority_class),
    (SCHEDULING, "Workload"): (groups.create_workload, groups.update_workload),
}
_NO_RULES: tuple[None, None] = (None, None)
# Those that do something else (binding, scale, eviction) decide for themselves.
_SUBRESOURCE_RULES: Mapping[tuple[str, str, str], Update] = {
    ("", "PersistentVolumeClaim", "status"): storage.update_claim_status,
    ("", "Pod", "ephemeralcontainers"): pods.update_ephemeral_containers,
    ("", "Pod", "resize"): pods.update_pod_size,
    ("", "Pod", "status"): pods.update_pod_status,
    ("apps", "StatefulSet", "status"): stateful.update_stateful_set_status,
    ("autoscaling", "HorizontalPodAutoscaler", "status"): autoscaling.update_autoscaler_status,
    ("certificates.k8s.io", "CertificateSigningRequest", "approval"): certificates.update_approval,
    ("certificates.k8s.io", "CertificateSigningRequest", "status"): certificates.update_status,
    ("policy", "PodDisruptionBudget", "status"): stateful.update_budget_status,
    (FLOWCONTROL, "FlowSchema", "status"): flowcontrol.update_status,
    (FLOWCONTROL, "PriorityLevelConfiguration", "status"): flowcontrol.update_status,
    (NETWORKING, "Ingress", "status"): ingress.update_ingress_status,
    (DRA, "DeviceTaintRule", "status"): device_kinds.update_rule_status,
    (DRA, "ResourceClaim", "status"): claims.update_claim_status,
    (DRA, "ResourcePoolStatusRequest", "status"): device_kinds.update_request_status,
    (EXTENSIONS, "CustomResourceDefinition", "status"): definitions.update_definition_status,
    (SCHEDULING, "PodGroup", "status"): groups.update_group_status,
}
Renames = tuple[tuple[str, str], ...]
# v1beta1 has no `exactly`, and a `basic`. Kubernetes calls a field as the client does where the rule stands in the schema,
# and as v1 does where it stands in code; so do we.
_FLAT: Renames = (
    (
        r"(\brequests\[\d+\])\.exactly(\.selectors|\.allocationMode|\.tolerations\[\d+\]\.(key|operator|effect))$",
        r"\1\2",
    ),
)
_BASIC: Renames = (
    (
        r"(\bdevices\[\d+\])(\.attributes\[[^]]*\]|\.consumesCounters(\[\d+\](\.\w+)?)?|\.taints\[\d+\]\.effect)$",
        r"\1.basic\2",
    ),
)
# What fields are called in other versions, where clients would not find the stored name.
_OLD_NAMES: Mapping[tuple[str, str], Renames] = {
    ("v1alpha1", "PodGroup"): (
        (r"\bspec\.schedulingPolicy", "spec.policy"),
        (r"\bspec\.workloadRef\.workloadName", "spec.workloadRef.name"),
        (r"\bspec\.workloadRef\.templateName", "spec.podGroupTemplateRef.name"),
    ),
    ("v1alpha1", "Workload"): ((r"\bschedulingPolicy", "policy"),),
    ("v1alpha1", "ResourcePoolStatusRequest"): (
        (r"\bstatus\.poolCount", "status.totalMatchingPools"),
        (r"\bresourceSliceCount", "sliceCount"),
    ),
    ("v1beta1", "ResourceClaim"): _FLAT,
    ("v1beta1", "ResourceClaimTemplate"): _FLAT,
    ("v1beta1", "ResourceSlice"): _BASIC,
}


def validate_create(resource: Resource, object_: Wire, context: Context) -> list[FieldError]:
    """What is wrong with a new object; nothing if it may be stored."""
    if resource.custom is not None:
        return list(custom.create(resource, object_, context))
    rules = _RULES.get((resource.group, resource.kind))
    found = _metadata_of(resource, object_) if rules is None else rules[0](object_, context)
    return _in_version(resource, context, found)


def validate_copy(resource: Resource, object_: Wire, context: Context) -> list[FieldError]:
    """What is wrong with a new object that differs in its metadata alone from one that was found right.

    For pods and claims, which may have any subdomain for a name.
    """
    return _in_version(resource, context, _metadata_of(resource, object_))


def validate_update(
    resource: Resource, object_: Wire, old: Wire, subresource: str, context: Context
) -> list[FieldError]:
    """What is wrong with a changed object; `old` is the one that it replaces."""
    if resource.custom is not None:
        return list(custom.update(resource, object_, old, context))
    key = resource.group, resource.kind
    update = _SUBRESOURCE_RULES.get((*key, subresource)) if subresource else _RULES.get(key, _NO_RULES)[1]
    if update is None:
        found: Iterable[FieldError] = metadata_update(object_.metadata, old.metadata)  # type: ignore[attr-defined]  # every kind has metadata
    else:
        found = update(object_, old, context)
    return _in_version(resource, context, found)


def _metadata_of(resource: Resource, object_: Any) -> Iterable[FieldError]:
    """A kind without rules of its own: a stored one still needs a name, a review has none."""
    return metadata(object_.metadata, resource.namespaced) if "get" in resource.verbs else ()


def _in_version(resource: Resource, context: Context, errors: Iterable[FieldError]) -> list[FieldError]:
    found = list(islice(errors, MOST_ERRORS + 1))  # finding all of thousands takes long, and nobody reads them
    renames = _OLD_NAMES.get((context.version, resource.kind)) if found else None
    if renames is None:
        return found
    return [FieldError(error.reason, _renamed(renames, error.field), error.detail) for error in found]


def _renamed(renames: Renames, field: str) -> str:
    for pattern, name in renames:
        field = re.sub(pattern, name, field)
    return field
