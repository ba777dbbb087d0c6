"""What an object says when its author is silent: Kubernetes' defaults, on trees of the stored version.

One function a kind, each reading and writing plain trees that `decode.check` has found well typed. Left out: what is
not a default but a decision of the server at creation (status, generation, finalizers: `strategy`) or of admission
(priority, tolerations of every pod).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from dray.api.defaults import cluster, devices, network, pods, storage, workloads
from dray.api.gates import FeatureGates
from dray.api.resources import (
    ADMISSION,
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
from dray.api.times import timestamp
from dray.api.wire import Tree

_DEFAULTS: Mapping[tuple[str, str], Callable[[Tree], None]] = {
    ("", "Endpoints"): network.endpoints,
    ("", "LimitRange"): cluster.limit_range,
    ("", "Namespace"): cluster.namespace,
    ("", "Node"): cluster.node,
    ("", "PersistentVolume"): storage.volume,
    ("", "PersistentVolumeClaim"): storage.claim,
    ("", "Pod"): pods.pod,
    ("", "PodTemplate"): pods.template,
    ("", "ReplicationController"): workloads.replication_controller,
    ("", "Secret"): cluster.secret,
    ("", "Service"): cluster.service,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "ReplicaSet"): workloads.replica_set,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("autoscaling", "HorizontalPodAutoscaler"): workloads.autoscaler,
    ("batch", "CronJob"): workloads.cron_job,
    ("batch", "Job"): workloads.job,
    ("discovery.k8s.io", "EndpointSlice"): network.endpoint_slice,
    (ADMISSION, "MutatingAdmissionPolicy"): cluster.mutating_policy,
    (ADMISSION, "MutatingAdmissionPolicyBinding"): cluster.admission_policy_binding,
    (ADMISSION, "MutatingWebhookConfiguration"): cluster.mutating_webhook_configuration,
    (ADMISSION, "ValidatingAdmissionPolicy"): cluster.admission_policy,
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): cluster.admission_policy_binding,
    (ADMISSION, "ValidatingWebhookConfiguration"): cluster.webhook_configuration,
    (EXTENSIONS, "CustomResourceDefinition"): cluster.definition,
    (FLOWCONTROL, "FlowSchema"): cluster.flow_schema,
    (FLOWCONTROL, "PriorityLevelConfiguration"): cluster.priority_level,
    (NETWORKING, "IngressClass"): network.ingress_class,
    (NETWORKING, "NetworkPolicy"): network.network_policy,
    (REGISTRATION, "APIService"): cluster.api_service,
    (STORAGE, "CSIDriver"): storage.csi_driver,
    (STORAGE, "StorageClass"): storage.storage_class,
    (RBAC, "ClusterRoleBinding"): cluster.role_binding,
    (RBAC, "RoleBinding"): cluster.role_binding,
    (SCHEDULING, "PriorityClass"): cluster.priority_class,
    (SCHEDULING, "CompositePodGroup"): workloads.pod_group,
    (SCHEDULING, "PodGroup"): workloads.pod_group,
    (DRA, "ResourceClaim"): devices.claim,
    (DRA, "ResourceClaimTemplate"): devices.claim_template,
    (DRA, "ResourcePoolStatusRequest"): devices.pool_status_request,
}
_TIMED: Mapping[tuple[str, str], Callable[[Tree, str], None]] = {
    (DRA, "DeviceTaintRule"): devices.taint_rule,
    (DRA, "ResourceSlice"): devices.slice_,
}


def apply_defaults(resource: Resource, tree: Tree, gates: FeatureGates, now: str | None = None) -> None:
    """Fill in what a stored tree leaves open, in place. `now` is the time that new taints carry.

    Fields of disabled features get their defaults too: whether they stay is decided later, by `strategy`.
    """
    key = resource.home.group, resource.kind
    if default := _DEFAULTS.get(key):
        default(tree)
    elif timed := _TIMED.get(key):
        timed(tree, now or timestamp(time.time()))


def has_defaults(resource: Resource) -> bool:
    """Whether anything is filled in for objects of a kind."""
    key = resource.home.group, resource.kind
    return key in _DEFAULTS or key in _TIMED
