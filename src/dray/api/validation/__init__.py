"""Whether an object may be stored: Kubernetes' rules, with its field paths, reasons and texts.

One function a kind and occasion, looked up in one table; metadata is judged in one way for all kinds. Each gets typed
objects and yields field errors in the order in which Kubernetes reports them; nothing is changed here. Left out: what
needs another object to decide (admission), and types, unknown fields and formats of plain values (`decode`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple

from dray.api import names
from dray.api.constraints import judged
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


class KindRules(NamedTuple):
    """What is judged of a kind besides its metadata, which is judged first."""

    create: Create
    update: Update | None = None  # None: what holds for a new object holds for a changed one
    name: names.Check = names.subdomain
    own_metadata: bool = False  # these rules judge metadata themselves: Kubernetes has another order there
    any_finalizer: bool = False  # when a subresource is written, finalizers need not say whose they are


def _nothing(object_: Any, old: Any, context: Context) -> Iterable[FieldError]:
    return ()


_ROLE = KindRules(access.create_role, access.update_role, own_metadata=True)
_ROLE_BINDING = KindRules(access.create_binding, access.update_binding, own_metadata=True)
_POLICY_BINDING = KindRules(policies.create_policy_binding, policies.update_policy_binding, own_metadata=True)
_WEBHOOKS = KindRules(access.create_webhooks, access.update_webhooks, own_metadata=True)
_RULES: Mapping[tuple[str, str], KindRules] = {
    ("", "Binding"): KindRules(core.create_binding),
    ("", "ConfigMap"): KindRules(core.create_config_map, core.update_config_map),
    ("", "Endpoints"): KindRules(network.check_endpoints),
    ("", "Event"): KindRules(core.create_event, _nothing, names.path_segment),
    ("", "LimitRange"): KindRules(cluster.create_limits, cluster.update_limits, own_metadata=True),
    ("", "Namespace"): KindRules(core.check_namespace, name=names.label),
    ("", "Node"): KindRules(core.create_node, core.update_node),
    ("", "PersistentVolume"): KindRules(storage.create_volume, storage.update_volume),
    ("", "PersistentVolumeClaim"): KindRules(storage.create_claim, storage.update_claim),
    ("", "Pod"): KindRules(pods.create_pod, pods.update_pod),
    ("", "PodTemplate"): KindRules(pods.check_pod_template),
    ("", "ReplicationController"): KindRules(workloads.check_replication_controller),
    ("", "ResourceQuota"): KindRules(core.create_quota, core.update_quota),
    ("", "Secret"): KindRules(core.create_secret, core.update_secret),
    ("", "Service"): KindRules(core.create_service, core.update_service, names.label_1035),
    ("apps", "ControllerRevision"): KindRules(stateful.create_revision, stateful.update_revision),
    ("apps", "DaemonSet"): KindRules(workloads.create_daemon_set, workloads.update_daemon_set),
    ("apps", "Deployment"): KindRules(workloads.create_deployment, workloads.update_deployment),
    ("apps", "ReplicaSet"): KindRules(workloads.create_replica_set, workloads.update_replica_set),
    # The pods of a StatefulSet take their hostnames from its name, so that is a label.
    ("apps", "StatefulSet"): KindRules(stateful.create_stateful_set, stateful.update_stateful_set, names.label),
    ("autoscaling", "HorizontalPodAutoscaler"): KindRules(autoscaling.check_autoscaler),
    ("batch", "CronJob"): KindRules(workloads.create_cron_job, workloads.update_cron_job),
    ("batch", "Job"): KindRules(workloads.create_job, workloads.update_job),
    ("certificates.k8s.io", "CertificateSigningRequest"): KindRules(
        certificates.create_request, _nothing, names.path_segment
    ),
    ("coordination.k8s.io", "Lease"): KindRules(core.check_lease),
    ("discovery.k8s.io", "EndpointSlice"): KindRules(network.create_slice),
    ("events.k8s.io", "Event"): KindRules(core.create_new_event, _nothing, names.path_segment),
    ("node.k8s.io", "RuntimeClass"): KindRules(cluster.create_runtime, _nothing),
    ("policy", "PodDisruptionBudget"): KindRules(stateful.check_budget),
    (ADMISSION, "MutatingAdmissionPolicy"): KindRules(
        policies.create_mutating_policy, policies.update_mutating_policy, own_metadata=True
    ),
    (ADMISSION, "MutatingAdmissionPolicyBinding"): _POLICY_BINDING,
    (ADMISSION, "MutatingWebhookConfiguration"): _WEBHOOKS,
    (ADMISSION, "ValidatingAdmissionPolicy"): KindRules(
        policies.create_policy, policies.update_policy, own_metadata=True
    ),
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): _POLICY_BINDING,
    (ADMISSION, "ValidatingWebhookConfiguration"): _WEBHOOKS,
    (AUTHENTICATION, "TokenReview"): KindRules(access.create_token_review),
    (AUTHORIZATION, "LocalSubjectAccessReview"): KindRules(access.create_access_review),
    (AUTHORIZATION, "SelfSubjectAccessReview"): KindRules(access.create_access_review),
    (AUTHORIZATION, "SelfSubjectRulesReview"): KindRules(access.create_rules_review),
    (AUTHORIZATION, "SubjectAccessReview"): KindRules(access.create_access_review),
    (DRA, "DeviceClass"): KindRules(device_kinds.create_class, device_kinds.update_class, own_metadata=True),
    (DRA, "DeviceTaintRule"): KindRules(device_kinds.create_rule, device_kinds.update_rule),
    (DRA, "ResourceClaim"): KindRules(claims.create_claim, claims.update_claim, own_metadata=True),
    (DRA, "ResourceClaimTemplate"): KindRules(claims.create_template, claims.update_template),
    (DRA, "ResourcePoolStatusRequest"): KindRules(device_kinds.create_request, _nothing),
    (DRA, "ResourceSlice"): KindRules(slices.create, slices.update),
    (EXTENSIONS, "CustomResourceDefinition"): KindRules(
        definitions.create_definition, definitions.update_definition, own_metadata=True, any_finalizer=True
    ),
    (FLOWCONTROL, "FlowSchema"): KindRules(
        flowcontrol.create_flow_schema, flowcontrol.update_flow_schema, own_metadata=True
    ),
    (FLOWCONTROL, "PriorityLevelConfiguration"): KindRules(
        flowcontrol.create_priority_level, flowcontrol.update_priority_level, own_metadata=True
    ),
    (NETWORKING, "IPAddress"): KindRules(network.create_address, _nothing, network.ip_name),
    (NETWORKING, "Ingress"): KindRules(ingress.create_ingress, ingress.update_ingress),
    (NETWORKING, "IngressClass"): KindRules(ingress.create_ingress_class, ingress.update_ingress_class),
    (NETWORKING, "NetworkPolicy"): KindRules(network.check_policy),
    (NETWORKING, "ServiceCIDR"): KindRules(network.create_service_range, network.update_service_range),
    (RBAC, "ClusterRole"): _ROLE,
    (RBAC, "ClusterRoleBinding"): _ROLE_BINDING,
    (RBAC, "Role"): _ROLE,
    (RBAC, "RoleBinding"): _ROLE_BINDING,
    (REGISTRATION, "APIService"): KindRules(cluster.create_api_service, cluster.update_api_service, own_metadata=True),
    (SCHEDULING, "PodGroup"): KindRules(groups.create_group, _nothing),
    (SCHEDULING, "PriorityClass"): KindRules(groups.create_priority_class, groups.update_priority_class),
    (SCHEDULING, "Workload"): KindRules(groups.create_workload, _nothing),
    (STORAGE, "CSIDriver"): KindRules(csi.create_driver, csi.update_driver),
    (STORAGE, "CSINode"): KindRules(csi.create_node, csi.update_node),
    (STORAGE, "CSIStorageCapacity"): KindRules(csi.create_capacity, csi.update_capacity),
    (STORAGE, "StorageClass"): KindRules(csi.create_class, _nothing),
    (STORAGE, "VolumeAttachment"): KindRules(csi.create_attachment, csi.update_attachment),
    (STORAGE, "VolumeAttributesClass"): KindRules(
        csi.create_attributes_class, csi.update_attributes_class, own_metadata=True
    ),
}
_NO_RULES = KindRules(lambda object_, context: ())  # metadata says it all
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
    (SCHEDULING, "PodGroup", "status"): groups.update_group_status,
}
Renames = tuple[tuple[str, str], ...]
# v1beta1 has no `exactly`, and a `basic`. Kubernetes calls a field as the client does where the rule stands in the
# schema, and as v1 does where it stands in code; so do we.
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
    rules = _RULES.get((resource.group, resource.kind), _NO_RULES)
    found = rules.create(object_, context)
    if not rules.own_metadata:
        found = chain(_metadata_of(resource, object_, rules.name), found)
    return _in_version(resource, context, chain(found, _constraints(resource, object_, None)))


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
    rules = _RULES.get(key, _NO_RULES)
    update = _SUBRESOURCE_RULES.get((*key, subresource), _nothing) if subresource else rules.update
    found = rules.create(object_, context) if update is None else update(object_, old, context)
    if subresource or not rules.own_metadata:
        found = chain(metadata_update(object_.metadata, old.metadata, rules.any_finalizer), found)  # type: ignore[attr-defined]  # every kind has metadata
    return _in_version(resource, context, chain(found, _constraints(resource, object_, old)))


def _constraints(resource: Resource, object_: Wire, old: Wire | None) -> Iterable[FieldError]:
    """What the schema says, which Kubernetes tells after everything else."""
    yield from judged(resource.home.message(), object_, old)


def _metadata_of(resource: Resource, object_: Any, name: names.Check = names.subdomain) -> Iterable[FieldError]:
    """A stored object needs a name, a review has none."""
    return metadata(object_.metadata, resource.namespaced, name) if "get" in resource.verbs else ()


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
