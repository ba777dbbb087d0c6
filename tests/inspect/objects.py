"""A small cluster to wait in: nodes with GPUs, classes, claims and pods, each changed a little by a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dray.api.types.core import Event, Node, Pod, ResourceQuota
from dray.api.types.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.api.types.scheduling import PodGroup

DRIVER = "gpu.example.com"
MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("%s")) >= 0'
MODEL = f'device.attributes["{DRIVER}"].%s == "%s"'


def node(name: str = "n1", *, cpu: str = "8", labels: Mapping[str, str] = {}, **spec: Any) -> Node:
    allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": f"node-{name}", "labels": {"kubernetes.io/hostname": name, **labels}},
            "spec": spec,
            "status": {"allocatable": allocatable},
        },
        Node,
    )


def device(name: str, *, model: str = "a100", memory: str = "40Gi", root: str = "r0", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "attributes": {"model": {"string": model}, "example.com/root": {"string": root}},
        "capacity": {"memory": {"value": memory}},
        **more,
    }


def gpus(
    node: str = "n1",
    devices: int | Iterable[dict[str, Any]] = 2,
    *,
    name: str = "",
    driver: str = DRIVER,
    of: int = 1,
    **spec: Any,
) -> ResourceSlice:
    listed = [device(f"gpu-{i}") for i in range(devices)] if isinstance(devices, int) else [*devices]
    return msgspec.convert(
        {
            "metadata": {"name": name or f"{node}-gpus"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": of},
                "devices": listed,
                **spec,
            },
        },
        ResourceSlice,
    )


def class_(name: str = "gpu", expression: str = f'device.driver == "{DRIVER}"') -> DeviceClass:
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}, DeviceClass
    )


def wants(count: int = 1, *selectors: str, name: str = "r", device_class: str = "gpu", **more: Any) -> dict[str, Any]:
    exactly = {
        "deviceClassName": device_class,
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": text}} for text in selectors],
        **more,
    }
    return {"name": name, "exactly": exactly}


def spec(*requests: dict[str, Any], constraints: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    return {"devices": {"requests": [*(requests or (wants(),))], "constraints": [*constraints]}}


def claim(
    name: str = "c", *requests: dict[str, Any], constraints: Sequence[dict[str, Any]] = (), **metadata: Any
) -> ResourceClaim:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}", **metadata},
            "spec": spec(*requests, constraints=constraints),
        },
        ResourceClaim,
    )


def held(
    name: str,
    *devices: str,
    node: str = "n1",
    by: Sequence[str] = ("other",),
    namespace: str = "default",
    **metadata: Any,
) -> ResourceClaim:
    """A claim that holds devices of a node."""
    where = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": d} for d in devices]
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace, "uid": f"claim-{name}", **metadata},
            "spec": spec(),
            "status": {
                "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [where]}},
                "reservedFor": [{"resource": "pods", "name": pod, "uid": f"pod-{pod}"} for pod in by],
            },
        },
        ResourceClaim,
    )


def shared(name: str, device: str, *, node: str = "n1", **consumed: str) -> ResourceClaim:
    """A claim that holds a share of a device."""
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device}
    result |= {"shareID": "00000000-0000-0000-0000-000000000001", "consumedCapacity": consumed}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}"},
            "spec": spec(),
            "status": {"allocation": {"devices": {"results": [result]}}},
        },
        ResourceClaim,
    )


def template(name: str = "t", *requests: dict[str, Any]) -> ResourceClaimTemplate:
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"spec": spec(*requests)}}, ResourceClaimTemplate
    )


def pod(
    name: str = "p",
    *,
    claims: Sequence[str | dict[str, Any]] = ("c",),
    cpu: str = "1",
    labels: Mapping[str, str] = {},
    status: Any = None,
    **more: Any,
) -> Pod:
    entries = [{"name": c, "resourceClaimName": c} if isinstance(c, str) else c for c in claims]
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"pod-{name}", "labels": dict(labels)},
            "spec": {
                "containers": [{"name": "c", "image": "app", "resources": {"requests": {"cpu": cpu}}}],
                "resourceClaims": entries,
                **more,
            },
            "status": status or {"phase": "Pending"},
        },
        Pod,
    )


def group(name: str = "g", *, claims: Sequence[dict[str, Any]] = (), gang: int = 0) -> PodGroup:
    policy: dict[str, Any] = {"gang": {"minCount": gang}} if gang else {"basic": {}}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"group-{name}"},
            "spec": {"schedulingPolicy": policy, "resourceClaims": [*claims]},
        },
        PodGroup,
    )


def quota(hard: Mapping[str, str], used: Mapping[str, str]) -> ResourceQuota:
    return msgspec.convert(
        {
            "metadata": {"name": "q", "namespace": "default"},
            "spec": {"hard": dict(hard)},
            "status": {"hard": dict(hard), "used": dict(used)},
        },
        ResourceQuota,
    )


def taint(key: str = "broken", value: str = "yes", effect: str = "NoSchedule") -> dict[str, Any]:
    return {"key": key, "value": value, "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}


def rule(name: str = "maintenance", **selector: str) -> DeviceTaintRule:
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint("maintenance", "")}},
        DeviceTaintRule,
    )


def event(reason: str, message: str, *, name: str = "p") -> Event:
    return msgspec.convert(
        {
            "metadata": {"name": f"{name}.1", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": name, "uid": f"pod-{name}"},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "lastTimestamp": "2026-01-01T00:00:00Z",
        },
        Event,
    )
