"""Roles and bindings that every cluster starts with, as data.

The names are those of Kubernetes. Each component has only the rights that it needs. `resourcepoolstatusrequests` are
granted only to cluster-admin and the controller that answers them, because they show the usage of other namespaces.
`bootstrap` writes the objects.
"""

from __future__ import annotations

from typing import Any, NamedTuple

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
CHANGE = ("patch", "update")

CORE = ""
ADMISSION = "admissionregistration.k8s.io"
APPS = "apps"
AUTOSCALING = "autoscaling"
BATCH = "batch"
COORDINATION = "coordination.k8s.io"
DISCOVERED = "discovery.k8s.io"
DRA = "resource.k8s.io"
EVENTS = "events.k8s.io"
RBAC = "rbac.authorization.k8s.io"
METRICS = "metrics.k8s.io"
NETWORKING = "networking.k8s.io"
POLICY = "policy"
SCHEDULING = "scheduling.k8s.io"
AUTHENTICATION = "authentication.k8s.io"
AUTHORIZATION = "authorization.k8s.io"

RuleTree = dict[str, Any]


def rule(verbs: tuple[str, ...], group: str | tuple[str, ...], *resources: str) -> RuleTree:
    """Return a rule on resources of one or several API groups."""
    groups = [group] if isinstance(group, str) else list(group)
    return {"verbs": list(verbs), "apiGroups": groups, "resources": list(resources)}


def paths(*urls: str) -> RuleTree:
    """Return a rule that allows GET of non-resource URLs."""
    return {"verbs": ["get"], "nonResourceURLs": list(urls)}


class BootstrapBinding(NamedTuple):
    """A binding of a role to users, groups or service accounts (namespace, name)."""

    name: str
    role: str
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    accounts: tuple[tuple[str, str], ...] = ()


WRITE_EVENTS = rule(("create", "patch", "update"), (CORE, EVENTS), "events")
REVIEW = (
    rule(("create",), AUTHENTICATION, "tokenreviews"),
    rule(("create",), AUTHORIZATION, "subjectaccessreviews"),
)
LEASES = rule(("create", "get", "list", "patch", "update", "watch"), COORDINATION, "leases")
HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *HEALTH)

# Rights of users in a namespace, by the role that they are aggregated to.
AGGREGATED: dict[str, tuple[RuleTree, ...]] = {
    "view": (
        rule(
            READ,
            CORE,
            "bindings",
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "namespaces/status",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "pods/log",
            "pods/status",
            "podtemplates",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
            "serviceaccounts",
            "services",
            "services/status",
        ),
        rule(READ, EVENTS, "events"),
        rule(
            READ,
            APPS,
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ),
        rule(READ, AUTOSCALING, "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
        rule(READ, BATCH, "cronjobs", "cronjobs/status", "jobs", "jobs/status"),
        rule(READ, DISCOVERED, "endpointslices"),
        rule(READ, NETWORKING, "ingresses", "ingresses/status", "networkpolicies"),
        rule(READ, POLICY, "poddisruptionbudgets", "poddisruptionbudgets/status"),
        rule(READ, DRA, "resourceclaims", "resourceclaims/status", "resourceclaimtemplates"),
        rule(READ, SCHEDULING, "compositepodgroups", "podgroups", "podgroups/status", "workloads"),
        rule(READ, METRICS, "nodes", "pods"),
    ),
    "edit": (
        rule(READ, CORE, "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"),
        rule(("impersonate",), CORE, "serviceaccounts"),
        rule(("create",), CORE, "pods/eviction", "serviceaccounts/token"),
        rule(
            WRITE,
            CORE,
            "configmaps",
            "events",
            "persistentvolumeclaims",
            "pods",
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "podtemplates",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ),
        rule(WRITE, APPS, "daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale"),
        rule(WRITE, APPS, "statefulsets", "statefulsets/scale"),
        rule(WRITE, AUTOSCALING, "horizontalpodautoscalers"),
        rule(WRITE, BATCH, "cronjobs", "jobs"),
        rule(WRITE, NETWORKING, "ingresses", "networkpolicies"),
        rule(WRITE, POLICY, "poddisruptionbudgets"),
        rule(READ + WRITE, COORDINATION, "leases"),
        rule(WRITE, DRA, "resourceclaims", "resourceclaimtemplates"),
        rule(WRITE, SCHEDULING, "compositepodgroups", "podgroups", "workloads"),
    ),
    "admin": (
        rule(("create",), AUTHORIZATION, "localsubjectaccessreviews"),
        rule(READ + WRITE, RBAC, "rolebindings", "roles"),
    ),
}

# Each role selects aggregated rules by label: an admin has the rights of an editor, and an editor those of a viewer.
AGGREGATES = {"admin": ("admin", "edit", "view"), "edit": ("edit", "view"), "view": ("view",)}

CLUSTER_ROLES: dict[str, tuple[RuleTree, ...]] = {
    "cluster-admin": (rule(("*",), "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]}),
    "system:discovery": (paths(*DISCOVERY),),
    "system:public-info-viewer": (paths(*HEALTH),),
    "system:monitoring": (paths("/metrics", "/livez", "/livez/*", "/readyz", "/readyz/*", "/healthz", "/healthz/*"),),
    "system:basic-user": (
        rule(("create",), AUTHORIZATION, "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        rule(("create",), AUTHENTICATION, "selfsubjectreviews"),
    ),
    "system:auth-delegator": REVIEW,
    # For administrators who disable the node authorizer; not bound to any subject.
    "system:node": (
        *REVIEW,
        rule(READ, CORE, "services", "nodes", "pods", "configmaps", "secrets", "serviceaccounts"),
        rule(("create", *CHANGE), CORE, "nodes"),
        rule(CHANGE, CORE, "nodes/status", "pods/status"),
        rule(("create", "delete"), CORE, "pods"),
        rule(("create",), CORE, "pods/eviction", "serviceaccounts/token"),
        WRITE_EVENTS,
        rule(("create", "delete", "get", *CHANGE), COORDINATION, "leases"),
        rule(("get",), DRA, "resourceclaims"),
        rule(READ + WRITE, DRA, "resourceslices"),
        rule(("get",), SCHEDULING, "podgroups"),
    ),
    "system:kube-scheduler": (
        *REVIEW,
        WRITE_EVENTS,
        LEASES,
        rule(READ, CORE, "namespaces", "nodes", "services"),
        rule((*READ, "delete"), CORE, "pods"),
        rule(("create",), CORE, "bindings", "pods/binding"),
        rule(CHANGE, CORE, "pods/status"),
        rule(READ, APPS, "replicasets"),
        rule(READ, POLICY, "poddisruptionbudgets"),
        rule(READ, SCHEDULING, "podgroups", "priorityclasses", "workloads"),
        rule(CHANGE, SCHEDULING, "podgroups/status"),
        rule(READ, DRA, "deviceclasses", "devicetaintrules", "resourceclaimtemplates", "resourceslices"),
        rule((*READ, "create", "delete", *CHANGE), DRA, "resourceclaims"),
        rule(READ + CHANGE, DRA, "resourceclaims/status"),
        rule(CHANGE, DRA, "resourceclaims/binding"),
    ),
    "system:kube-controller-manager": (*REVIEW, WRITE_EVENTS, LEASES, rule(("list", "watch"), "*", "*")),
}

_EVERYTHING = rule(("delete", "deletecollection", "get", "list", "patch", "update", "watch"), "*", "*")

CONTROLLERS: dict[str, tuple[RuleTree, ...]] = {
    "resource-claim-controller": (
        rule(READ, CORE, "pods"),
        rule(("get",), CORE, "namespaces"),
        rule(CHANGE, CORE, "pods/status", "pods/finalizers"),
        rule((*READ, "create", "delete", *CHANGE), DRA, "resourceclaims"),
        rule(CHANGE, DRA, "resourceclaims/status", "resourceclaims/binding"),
        rule(READ, DRA, "resourceclaimtemplates"),
        rule(("get",), "apiextensions.k8s.io", "customresourcedefinitions"),
        rule(READ, SCHEDULING, "podgroups", "workloads"),
        rule(CHANGE, SCHEDULING, "podgroups/status", "podgroups/finalizers"),
    ),
    "device-taint-eviction-controller": (
        rule((*READ, "delete"), CORE, "pods"),
        rule(CHANGE, CORE, "pods/status"),
        rule(READ, DRA, "deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"),
        rule(CHANGE, DRA, "devicetaintrules/status"),
    ),
    "resourcepoolstatusrequest-controller": (
        rule((*READ, "delete"), DRA, "resourcepoolstatusrequests"),
        rule(CHANGE, DRA, "resourcepoolstatusrequests/status"),
        rule(READ, DRA, "devicetaintrules", "resourceclaims", "resourceslices"),
    ),
    "podgroup-protection-controller": (
        rule(READ, CORE, "pods"),
        rule(READ + CHANGE, SCHEDULING, "podgroups"),
        rule(CHANGE, SCHEDULING, "podgroups/status"),
    ),
    "generic-garbage-collector": (_EVERYTHING,),
    "namespace-controller": (_EVERYTHING, rule(CHANGE, CORE, "namespaces/finalize", "namespaces/status")),
    "pod-garbage-collector": (
        rule((*READ, "delete"), CORE, "pods"),
        rule(CHANGE, CORE, "pods/status"),
        rule(READ, CORE, "nodes"),
        rule((*READ, "delete", "deletecollection"), DRA, "resourceslices"),
    ),
    "node-controller": (
        rule((*READ, "delete", *CHANGE), CORE, "nodes"),
        rule(CHANGE, CORE, "nodes/status", "pods/status"),
        rule((*READ, "delete"), CORE, "pods"),
        rule(READ, COORDINATION, "leases"),
    ),
    "deployment-controller": (
        rule(READ + CHANGE, APPS, "deployments"),
        rule(CHANGE, APPS, "deployments/status", "deployments/finalizers"),
        rule((*READ, "create", "delete", *CHANGE), APPS, "replicasets"),
        rule(READ, CORE, "pods"),
    ),
    "replicaset-controller": (
        rule(READ + CHANGE, APPS, "replicasets"),
        rule(CHANGE, APPS, "replicasets/status", "replicasets/finalizers"),
        rule((*READ, "create", "delete", *CHANGE), CORE, "pods"),
    ),
    "replication-controller": (
        rule(READ + CHANGE, CORE, "replicationcontrollers"),
        rule(CHANGE, CORE, "replicationcontrollers/status", "replicationcontrollers/finalizers"),
        rule((*READ, "create", "delete", *CHANGE), CORE, "pods"),
    ),
    "daemon-set-controller": (
        rule(READ + CHANGE, APPS, "daemonsets"),
        rule(CHANGE, APPS, "daemonsets/status", "daemonsets/finalizers"),
        rule(READ, CORE, "nodes"),
        rule((*READ, "create", "delete", *CHANGE), APPS, "controllerrevisions"),
        rule((*READ, "create", "delete", *CHANGE), CORE, "pods"),
    ),
    "statefulset-controller": (
        rule(READ + CHANGE, APPS, "statefulsets"),
        rule(CHANGE, APPS, "statefulsets/status", "statefulsets/finalizers"),
        rule((*READ, "create", "delete", *CHANGE), APPS, "controllerrevisions"),
        rule((*READ, "create", "delete", *CHANGE), CORE, "pods"),
        rule((*READ, "create", "delete", *CHANGE), CORE, "persistentvolumeclaims"),
    ),
    "cronjob-controller": (
        rule(READ + CHANGE, BATCH, "cronjobs"),
        rule(CHANGE, BATCH, "cronjobs/status", "cronjobs/finalizers"),
        rule((*READ, "create", "delete", *CHANGE), BATCH, "jobs"),
    ),
    "disruption-controller": (
        rule(READ, POLICY, "poddisruptionbudgets"),
        rule(CHANGE, POLICY, "poddisruptionbudgets/status"),
        rule(READ, APPS, "deployments", "replicasets", "statefulsets"),
        rule(READ, CORE, "pods", "replicationcontrollers"),
    ),
    "endpointslice-controller": (
        rule(READ, CORE, "services", "pods", "nodes"),
        rule(CHANGE, CORE, "services/finalizers"),
        rule((*READ, "create", "delete", *CHANGE), CORE, "endpoints"),
        rule((*READ, "create", "delete", *CHANGE), DISCOVERED, "endpointslices"),
    ),
    "persistent-volume-binder": (
        rule((*READ, "create", "delete", *CHANGE), CORE, "persistentvolumes"),
        rule(CHANGE, CORE, "persistentvolumes/status", "persistentvolumeclaims/status"),
        rule(READ + CHANGE, CORE, "persistentvolumeclaims"),
        rule((*READ, "create"), "storage.k8s.io", "storageclasses"),
        rule(READ, CORE, "pods"),
    ),
    "job-controller": (
        rule((*READ, "delete", *CHANGE), BATCH, "jobs"),
        rule(CHANGE, BATCH, "jobs/status", "jobs/finalizers"),
        rule((*READ, "create", "delete", *CHANGE), CORE, "pods"),
        rule((*READ, "create", "delete", *CHANGE), SCHEDULING, "podgroups", "workloads"),
    ),
    "workload-controller": (
        rule(READ + CHANGE, SCHEDULING, "workloads"),
        rule((*READ, "create", "delete", *CHANGE), SCHEDULING, "podgroups"),
        rule(CHANGE, SCHEDULING, "podgroups/status"),
        rule(READ, CORE, "pods"),
    ),
    "resourcequota-controller": (
        rule(("list", "watch"), "*", "*"),
        rule(("get", *CHANGE), CORE, "resourcequotas", "resourcequotas/status"),
    ),
    "root-ca-cert-publisher": (
        rule((*READ, "create", *CHANGE), CORE, "configmaps"),
        rule(READ, CORE, "namespaces"),
    ),
    "service-account-controller": (
        rule((*READ, "create"), CORE, "serviceaccounts"),
        rule(READ, CORE, "namespaces"),
    ),
    "validatingadmissionpolicy-status-controller": (
        rule(READ, ADMISSION, "validatingadmissionpolicies"),
        rule(CHANGE, ADMISSION, "validatingadmissionpolicies/status"),
    ),
}

CONTROLLER_PREFIX = "system:controller:"
CONTROLLER_MANAGER = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"

CLUSTER_BINDINGS: tuple[BootstrapBinding, ...] = (
    BootstrapBinding("cluster-admin", "cluster-admin", groups=("system:masters",)),
    BootstrapBinding("system:discovery", "system:discovery", groups=("system:authenticated",)),
    BootstrapBinding("system:basic-user", "system:basic-user", groups=("system:authenticated",)),
    BootstrapBinding(
        "system:public-info-viewer",
        "system:public-info-viewer",
        groups=("system:authenticated", "system:unauthenticated"),
    ),
    BootstrapBinding("system:monitoring", "system:monitoring", groups=("system:monitoring",)),
    BootstrapBinding("system:kube-scheduler", "system:kube-scheduler", users=(SCHEDULER,)),
    BootstrapBinding("system:kube-controller-manager", "system:kube-controller-manager", users=(CONTROLLER_MANAGER,)),
    # All controllers run in one process as one user. A controller that runs alone can use its service account.
    *(
        BootstrapBinding(
            CONTROLLER_PREFIX + name,
            CONTROLLER_PREFIX + name,
            users=(CONTROLLER_MANAGER,),
            accounts=(("kube-system", name),),
        )
        for name in CONTROLLERS
    ),
)
