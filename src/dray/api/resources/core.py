"""The core group, events, leases and endpoint slices."""

from __future__ import annotations

from dray.api.resources.row import CREATE_ONLY, Resource
from dray.api.types import coordination, core, discovery, events

ROWS: tuple[Resource, ...] = (
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
    Resource("coordination.k8s.io", "leases", "Lease", coordination.Lease),
    Resource("", "endpoints", "Endpoints", core.Endpoints, short_names=("ep",)),
    Resource("", "limitranges", "LimitRange", core.LimitRange, short_names=("limits",)),
    Resource(
        "",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        core.PersistentVolumeClaim,
        short_names=("pvc",),
        subresources=("status",),
    ),
    Resource(
        "",
        "persistentvolumes",
        "PersistentVolume",
        core.PersistentVolume,
        namespaced=False,
        short_names=("pv",),
        subresources=("status",),
    ),
    Resource("discovery.k8s.io", "endpointslices", "EndpointSlice", discovery.EndpointSlice),
)
