"""Which resources exist: one row a resource, the only list of them.

Discovery, routing, storage keys, OpenAPI, clients and controllers read this table. `message` names the schema's
messages by version; the stored version has a struct in `dray.api.types`. A row says nothing about behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dray.api.types import (
    admissionregistration,
    apps,
    authentication,
    authorization,
    batch,
    coordination,
    core,
    events,
    rbac,
    resource,
    scheduling,
)
from dray.api.wire import Wire

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)


@dataclass(frozen=True, slots=True, eq=False)  # asked, and looked up by, several times in every request
class Resource:
    """One resource of the API: its names, versions and stored type."""

    group: str
    plural: str
    kind: str
    type: type[Wire]
    versions: tuple[str, ...] = ("v1",)  # in order of preference
    stored: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    gate: str | None = None  # served only while this feature gate is on
    alias_of: str | None = None  # a second group that serves the same stored objects (events)
    singular: str = field(init=False)
    qualified: str = field(init=False)  # `resourceclaims.resource.k8s.io`; core resources have no suffix
    prefix: str = field(init=False)  # where the objects of this resource are stored

    def __post_init__(self) -> None:
        qualified = f"{self.plural}.{self.group}" if self.group else self.plural
        object.__setattr__(self, "singular", self.kind.lower())
        object.__setattr__(self, "qualified", qualified)
        object.__setattr__(self, "prefix", f"{self.alias_of or qualified}/")

    def key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"

    def api_version(self, version: str | None = None) -> str:
        version = version or self.stored
        return f"{self.group}/{version}" if self.group else version

    def message(self, version: str | None = None) -> str:
        """The schema's name of this kind in a version."""
        package = self.group.partition(".")[0] or "core"
        return f"io.k8s.api.{package}.{version or self.stored}.{self.kind}"


DRA = "resource.k8s.io"
SCHEDULING = "scheduling.k8s.io"
RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
AUTHENTICATION = "authentication.k8s.io"
AUTHORIZATION = "authorization.k8s.io"
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
GROUP_VERSIONS = ("v1beta1", "v1alpha3", "v1alpha1")

RESOURCES: tuple[Resource, ...] = (
    Resource(
        "",
        "namespaces",
        "Namespace",
        core.Namespace,
        namespaced=False,
        short_names=("ns",),
        subresources=("finalize", "status"),
    ),
    Resource("", "nodes", "Node", core.Node, namespaced=False, short_names=("no",), subresources=("proxy", "status")),
    Resource(
        "",
        "pods",
        "Pod",
        core.Pod,
        short_names=("po",),
        categories=("all",),
        subresources=(
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
            "resize",
            "status",
        ),
    ),
    Resource("", "bindings", "Binding", core.Binding, verbs=CREATE_ONLY),
    Resource("", "events", "Event", core.Event, short_names=("ev",)),
    Resource(
        "", "resourcequotas", "ResourceQuota", core.ResourceQuota, short_names=("quota",), subresources=("status",)
    ),
    Resource(
        "", "serviceaccounts", "ServiceAccount", core.ServiceAccount, short_names=("sa",), subresources=("token",)
    ),
    Resource("", "configmaps", "ConfigMap", core.ConfigMap, short_names=("cm",)),
    Resource("", "secrets", "Secret", core.Secret),
    Resource(
        "",
        "services",
        "Service",
        core.Service,
        short_names=("svc",),
        categories=("all",),
        subresources=("proxy", "status"),
    ),
    Resource("", "podtemplates", "PodTemplate", core.PodTemplate),
    Resource(
        "",
        "replicationcontrollers",
        "ReplicationController",
        core.ReplicationController,
        short_names=("rc",),
        categories=("all",),
        subresources=("scale", "status"),
    ),
    Resource("events.k8s.io", "events", "Event", events.Event, short_names=("ev",), alias_of="events"),
    Resource(
        "apps",
        "deployments",
        "Deployment",
        apps.Deployment,
        short_names=("deploy",),
        categories=("all",),
        subresources=("scale", "status"),
    ),
    Resource(
        "apps",
        "replicasets",
        "ReplicaSet",
        apps.ReplicaSet,
        short_names=("rs",),
        categories=("all",),
        subresources=("scale", "status"),
    ),
    Resource(
        "apps",
        "daemonsets",
        "DaemonSet",
        apps.DaemonSet,
        short_names=("ds",),
        categories=("all",),
        subresources=("status",),
    ),
    Resource("batch", "jobs", "Job", batch.Job, categories=("all",), subresources=("status",)),
    Resource("coordination.k8s.io", "leases", "Lease", coordination.Lease),
    Resource(RBAC, "clusterroles", "ClusterRole", rbac.ClusterRole, namespaced=False),
    Resource(RBAC, "clusterrolebindings", "ClusterRoleBinding", rbac.ClusterRoleBinding, namespaced=False),
    Resource(RBAC, "roles", "Role", rbac.Role),
    Resource(RBAC, "rolebindings", "RoleBinding", rbac.RoleBinding),
    Resource(
        ADMISSION,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        admissionregistration.ValidatingWebhookConfiguration,
        namespaced=False,
        categories=("api-extensions",),
    ),
    Resource(
        ADMISSION,
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        admissionregistration.ValidatingAdmissionPolicy,
        namespaced=False,
        categories=("api-extensions",),
        subresources=("status",),
    ),
    Resource(
        ADMISSION,
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        admissionregistration.ValidatingAdmissionPolicyBinding,
        namespaced=False,
        categories=("api-extensions",),
    ),
    Resource(
        AUTHENTICATION, "tokenreviews", "TokenReview", authentication.TokenReview, namespaced=False, verbs=CREATE_ONLY
    ),
    Resource(
        AUTHENTICATION,
        "selfsubjectreviews",
        "SelfSubjectReview",
        authentication.SelfSubjectReview,
        namespaced=False,
        verbs=CREATE_ONLY,
    ),
    Resource(
        AUTHORIZATION,
        "subjectaccessreviews",
        "SubjectAccessReview",
        authorization.SubjectAccessReview,
        namespaced=False,
        verbs=CREATE_ONLY,
    ),
    Resource(
        AUTHORIZATION,
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        authorization.SelfSubjectAccessReview,
        namespaced=False,
        verbs=CREATE_ONLY,
    ),
    Resource(
        AUTHORIZATION,
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        authorization.SelfSubjectRulesReview,
        namespaced=False,
        verbs=CREATE_ONLY,
    ),
    Resource(
        AUTHORIZATION,
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        authorization.LocalSubjectAccessReview,
        verbs=CREATE_ONLY,
    ),
    Resource(
        SCHEDULING, "priorityclasses", "PriorityClass", scheduling.PriorityClass, namespaced=False, short_names=("pc",)
    ),
    Resource(
        SCHEDULING,
        "workloads",
        "Workload",
        scheduling.Workload,
        versions=GROUP_VERSIONS,
        stored="v1beta1",
        gate="GenericWorkload",
    ),
    Resource(
        SCHEDULING,
        "podgroups",
        "PodGroup",
        scheduling.PodGroup,
        versions=GROUP_VERSIONS,
        stored="v1beta1",
        subresources=("status",),
        gate="GenericWorkload",
    ),
    Resource(
        DRA,
        "deviceclasses",
        "DeviceClass",
        resource.DeviceClass,
        versions=DRA_VERSIONS,
        namespaced=False,
        gate="DynamicResourceAllocation",
    ),
    Resource(
        DRA,
        "resourceclaims",
        "ResourceClaim",
        resource.ResourceClaim,
        versions=DRA_VERSIONS,
        subresources=("status",),
        gate="DynamicResourceAllocation",
    ),
    Resource(
        DRA,
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        resource.ResourceClaimTemplate,
        versions=DRA_VERSIONS,
        gate="DynamicResourceAllocation",
    ),
    Resource(
        DRA,
        "resourceslices",
        "ResourceSlice",
        resource.ResourceSlice,
        versions=DRA_VERSIONS,
        namespaced=False,
        gate="DynamicResourceAllocation",
    ),
    Resource(
        DRA,
        "devicetaintrules",
        "DeviceTaintRule",
        resource.DeviceTaintRule,
        versions=("v1", "v1beta2", "v1alpha3"),
        namespaced=False,
        subresources=("status",),
        gate="DRADeviceTaints",
    ),
    Resource(
        DRA,
        "resourcepoolstatusrequests",
        "ResourcePoolStatusRequest",
        resource.ResourcePoolStatusRequest,
        versions=("v1alpha3", "v1alpha1"),
        stored="v1alpha3",
        namespaced=False,
        short_names=("rpsr",),
        subresources=("status",),
        gate="DRAResourcePoolStatus",
    ),
)

BY_TYPE: dict[type[Wire], Resource] = {r.type: r for r in RESOURCES}
BY_NAME: dict[tuple[str, str], Resource] = {(r.group, r.plural): r for r in RESOURCES}
BY_KIND: dict[tuple[str, str], Resource] = {(r.group, r.kind): r for r in RESOURCES}
