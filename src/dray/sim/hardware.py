"""Objects that a simulated node creates: the node, its lease, and the slices of its driver. No I/O."""

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
    """Return the IP address of a node, from a range reserved for benchmarks; pods use the other half of the range.

    `number` is the number of the node; addresses repeat after 65,536 nodes.
    """
    return f"198.18.{number >> 8 & 255}.{number & 255}"


def node_tree(
    number: int,
    now: str,
    name: str = "",
    capacity: Mapping[str, str] = _CAPACITY,
    labels: Mapping[str, str] = _NO_LABELS,
) -> dict[str, Any]:
    """Return a ready node. Its address is derived from its number, as is its name unless given.

    `now` is the timestamp of its conditions. `capacity` are quantities by resource. `labels` are added to the usual
    ones.
    """
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
    """Return the conditions of a healthy node."""
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
    """Return the lease of a node, owned by the node if its uid is given.

    `now` is the time of renewal, `seconds` the duration of the lease.
    """
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
    """Return a device. Every fourth device is the larger model, and each four devices share a PCIe root.

    It is named `gpu-NUMBER`.
    """
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
    """Return the owner reference of a slice to its node."""
    return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}


def slice_trees(number: int, devices: int, owner_uid: str) -> list[dict[str, Any]]:
    """Return the slices of a node's pool, owned by the node.

    `number` is the number of the node, `devices` that of its devices.
    """
    node = node_name(number)
    trees = plain_slices(node, devices)
    for tree in trees:
        tree["metadata"]["ownerReferences"] = [owner_tree(node, owner_uid)]
    return trees


def plain_slices(node: str, devices: int) -> list[dict[str, Any]]:
    """Return the slices of a node's pool, with at most DEVICES_A_SLICE devices each.

    `devices` is the number of devices.
    """
    chunks = [range(i, min(i + DEVICES_A_SLICE, devices)) for i in range(0, devices, DEVICES_A_SLICE)]
    return [
        slice_tree(f"{node}-{DRIVER}-{i}", DRIVER, node, len(chunks), {"devices": [device_tree(d) for d in chunk]})
        for i, chunk in enumerate(chunks)
    ]


def slice_tree(name: str, driver: str, node: str, count: int, content: dict[str, Any]) -> dict[str, Any]:
    """Return one of the `count` slices of a node's pool, with these devices or counters."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, **content},
    }


def class_tree(name: str = CLASS, selector: str = f"device.driver == '{DRIVER}'") -> dict[str, Any]:
    """Return a class with one selector. The default class can be adopted by the Helm chart of dra-example-driver."""
    adoption = {"labels": {**_MANAGED_BY_HELM}, "annotations": {**_EXAMPLE_RELEASE}} if name == CLASS else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, **adoption},
        "spec": {"selectors": [{"cel": {"expression": selector}}]},
    }
