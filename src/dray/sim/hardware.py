"""The objects that a simulated node brings: itself, its lease, and the slice of devices of its driver. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dray import KUBERNETES_VERSION
from dray.api.simulated import BY_SIMULATION, RUNS_NO_PODS, SIMULATED

DRIVER = "gpu.example.com"
CLASS = "gpu.example.com"
DEVICES_A_SLICE = 128
_CAPACITY = MappingProxyType({"cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "1Ti"})
# Helm installs a chart over an object that exists only if the object names the release, which is the one of the driver's
# own instructions. The chart's class has the name and the selector
# of ours, letter by letter, since a server-side apply of another text would be a conflict.
_MANAGED_BY_HELM = MappingProxyType({"app.kubernetes.io/managed-by": "Helm"})
_EXAMPLE_RELEASE = MappingProxyType(
    {"meta.helm.sh/release-name": "dra-example-driver", "meta.helm.sh/release-namespace": "dra-example-driver"}
)
_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_GIB_OF_MODEL = {"a100": 40, "h100": 80}


def node_name(number: int) -> str:
    return f"node-{number}"


def address(number: int) -> str:
    """An address for a node, out of a range that is reserved for benchmarks; pods have the other half of it."""
    return f"198.18.{number >> 8 & 255}.{number & 255}"


def node_tree(
    number: int,
    now: str,
    name: str = "",
    capacity: Mapping[str, str] = _CAPACITY,
    labels: Mapping[str, str] = _NO_LABELS,
) -> dict[str, Any]:
    """A ready node; its address is made of its number, and so is its name unless it is told."""
    name = name or node_name(number)
    hostname = {"kubernetes.io/hostname": name}
    usual = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", SIMULATED: "true"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": hostname | usual | dict(labels) | hostname,
            "annotations": {RUNS_NO_PODS: BY_SIMULATION},
        },
        "spec": {},
        "status": {
            "capacity": {**capacity},
            "allocatable": {**capacity},
            "addresses": [
                {"type": "InternalIP", "address": address(number)},
                {"type": "Hostname", "address": name},
            ],
            "conditions": conditions(now),
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": f"{KUBERNETES_VERSION}+dray",
                "containerRuntimeVersion": "dray://simulated",
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
                "kernelVersion": "",
                "kubeProxyVersion": "",
                "osImage": "simulated",
            },
        },
    }


def conditions(now: str) -> list[dict[str, Any]]:
    """Those of a node that is well."""
    return [
        condition("Ready", "True", now, "KubeletReady", "simulated node is ready"),
        condition("MemoryPressure", "False", now, "KubeletHasSufficientMemory", ""),
        condition("DiskPressure", "False", now, "KubeletHasNoDiskPressure", ""),
        condition("PIDPressure", "False", now, "KubeletHasSufficientPID", ""),
    ]


def condition(type_: str, status: str, now: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def lease_tree(name: str, now: str, seconds: int, owner_uid: str = "") -> dict[str, Any]:
    """The lease of a node, which goes with the node whose uid is given."""
    owners = (
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner_uid}]} if owner_uid else {}
    )
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", **owners},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": now},
    }


def device_tree(number: int) -> dict[str, Any]:
    """One device: every fourth is the larger model, and each half of a node has a PCIe root of its own."""
    model = "h100" if number % 4 == 3 else "a100"
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "model": {"string": model},
            "index": {"int": number},
            "driverVersion": {"version": "1.0.0"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 4:02x}"},
        },
        "capacity": {"memory": {"value": f"{_GIB_OF_MODEL[model]}Gi"}},
    }


def owner_tree(node: str, uid: str) -> dict[str, Any]:
    """How a slice names the node that it goes with."""
    return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}


def slice_trees(number: int, devices: int, owner_uid: str) -> list[dict[str, Any]]:
    """The slices of a node's pool, owned by the node."""
    node = node_name(number)
    trees = plain_slices(node, devices)
    for tree in trees:
        tree["metadata"]["ownerReferences"] = [owner_tree(node, owner_uid)]
    return trees


def plain_slices(node: str, devices: int) -> list[dict[str, Any]]:
    """The slices of a node's pool, as many as the limit of devices a slice asks for."""
    chunks = [range(i, min(i + DEVICES_A_SLICE, devices)) for i in range(0, devices, DEVICES_A_SLICE)]
    return [
        slice_tree(f"{node}-{DRIVER}-{i}", DRIVER, node, len(chunks), {"devices": [device_tree(d) for d in chunk]})
        for i, chunk in enumerate(chunks)
    ]


def slice_tree(name: str, driver: str, node: str, count: int, content: dict[str, Any]) -> dict[str, Any]:
    """One of the `count` slices of a node's pool, with these devices or counters."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, **content},
    }


def class_tree(name: str = CLASS, selector: str = f"device.driver == '{DRIVER}'") -> dict[str, Any]:
    """A class with one selector. The one of simulated nodes can be adopted by the chart of dra-example-driver."""
    adoption = {"labels": {**_MANAGED_BY_HELM}, "annotations": {**_EXAMPLE_RELEASE}} if name == CLASS else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, **adoption},
        "spec": {"selectors": [{"cel": {"expression": selector}}]},
    }
