"""What an object says when its author is silent: Kubernetes' defaults, on trees of the stored version.

One function a kind, each reading and writing plain trees that `decode.check` has found well typed. Left out: what is
not a default but a decision of the server at creation (status, generation, finalizers: `strategy`) or of admission
(priority, tolerations of every pod).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from dray.api.conversion import home
from dray.api.defaults import cluster, devices, pods, workloads
from dray.api.gates import FeatureGates
from dray.api.resources import ADMISSION, DRA, RBAC, SCHEDULING, Resource

Tree = dict[str, Any]

_DEFAULTS: Mapping[tuple[str, str], Callable[[Tree], None]] = {
    ("", "Namespace"): cluster.namespace,
    ("", "Node"): cluster.node,
    ("", "Pod"): pods.pod,
    ("", "PodTemplate"): pods.template,
    ("", "ReplicationController"): workloads.replication_controller,
    ("", "Secret"): cluster.secret,
    ("", "Service"): cluster.service,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "ReplicaSet"): workloads.replica_set,
    ("batch", "Job"): workloads.job,
    (ADMISSION, "ValidatingAdmissionPolicy"): cluster.admission_policy,
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): cluster.admission_policy_binding,
    (ADMISSION, "ValidatingWebhookConfiguration"): cluster.webhook_configuration,
    (RBAC, "ClusterRoleBinding"): cluster.role_binding,
    (RBAC, "RoleBinding"): cluster.role_binding,
    (SCHEDULING, "PriorityClass"): cluster.priority_class,
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
    key = home(resource).group, resource.kind
    if default := _DEFAULTS.get(key):
        default(tree)
    elif timed := _TIMED.get(key):
        timed(tree, now or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
