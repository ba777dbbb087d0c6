"""What pods stand on: storage, networks, runtimes, and what they use of their nodes."""

from __future__ import annotations

from dray.api.resources.row import METRICS, NETWORKING, READ_ONLY, STORAGE, Resource
from dray.api.types import metrics, networking, node, storage

ROWS: tuple[Resource, ...] = (
    Resource(STORAGE, "storageclasses", "StorageClass", storage.StorageClass, namespaced=False, short_names=("sc",)),
    Resource(STORAGE, "csidrivers", "CSIDriver", storage.CSIDriver, namespaced=False, inert=True),
    Resource(STORAGE, "csinodes", "CSINode", storage.CSINode, namespaced=False, subresources=("status",), inert=True),
    Resource(STORAGE, "csistoragecapacities", "CSIStorageCapacity", storage.CSIStorageCapacity, inert=True),
    Resource(
        STORAGE,
        "volumeattachments",
        "VolumeAttachment",
        storage.VolumeAttachment,
        namespaced=False,
        subresources=("status",),
        inert=True,
    ),
    Resource(
        STORAGE,
        "volumeattributesclasses",
        "VolumeAttributesClass",
        storage.VolumeAttributesClass,
        namespaced=False,
        short_names=("vac",),
        inert=True,
    ),
    Resource(
        NETWORKING,
        "ingresses",
        "Ingress",
        networking.Ingress,
        short_names=("ing",),
        subresources=("status",),
        inert=True,
    ),
    Resource(NETWORKING, "ingressclasses", "IngressClass", networking.IngressClass, namespaced=False, inert=True),
    Resource(
        NETWORKING, "networkpolicies", "NetworkPolicy", networking.NetworkPolicy, short_names=("netpol",), inert=True
    ),
    Resource(
        NETWORKING, "ipaddresses", "IPAddress", networking.IPAddress, namespaced=False, short_names=("ip",), inert=True
    ),
    Resource(
        NETWORKING,
        "servicecidrs",
        "ServiceCIDR",
        networking.ServiceCIDR,
        namespaced=False,
        subresources=("status",),
        inert=True,
    ),
    # Measured when they are asked for, and stored nowhere.
    Resource(
        METRICS,
        "nodes",
        "NodeMetrics",
        metrics.NodeMetrics,
        ("v1beta1",),
        "v1beta1",
        namespaced=False,
        verbs=READ_ONLY,
    ),
    Resource(METRICS, "pods", "PodMetrics", metrics.PodMetrics, ("v1beta1",), "v1beta1", verbs=READ_ONLY),
    Resource("node.k8s.io", "runtimeclasses", "RuntimeClass", node.RuntimeClass, namespaced=False),
)
