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
from tests import objects

DRIVER = "gpu.example.com"
MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("%s")) >= 0'
MODEL = f'device.attributes["{DRIVER}"].%s == "%s"'


def node(name: str = "n1", *, cpu: str = "8", labels: Mapping[str, str] = {}, **spec: Any) -> Node:
    tree = objects.node(
        name,
        labels={"kubernetes.io/hostname": name, **labels},
        metadata={"uid": f"node-{name}"},
        status={"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"}},
        **spec,
    )
    return msgspec.convert(tree, Node)


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
    of: int = 1,
    **more: Any,
) -> ResourceSlice:
    listed = [device(f"gpu-{i}") for i in range(devices)] if isinstance(devices, int) else [*devices]
    tree = objects.resource_slice(name or f"{node}-gpus", node=node, count=of, **{"devices": listed, **more})
    return msgspec.convert(tree, ResourceSlice)


def class_(name: str = "gpu", expression: str = f'device.driver == "{DRIVER}"') -> DeviceClass:
    return msgspec.convert(objects.device_class(name, expression), DeviceClass)


def wants(count: int = 1, *selectors: str, name: str = "r", device_class: str = "gpu", **more: Any) -> dict[str, Any]:
    exactly = {"allocationMode": "ExactCount", "count": count, **more}
    return objects.request(name, device_class, selectors=selectors, **exactly)


def spec(*requests: dict[str, Any], constraints: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    return objects.claim_spec(*(requests or (wants(),)), constraints=[*constraints])


def claim(
    name: str = "c",
    *requests: dict[str, Any],
    constraints: Sequence[dict[str, Any]] = (),
    namespace: str = "default",
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> ResourceClaim:
    tree = objects.claim(
        name,
        *(requests or (wants(),)),
        namespace=namespace,
        constraints=[*constraints],
        metadata={"uid": f"claim-{name}", **metadata},
        status=status,
    )
    return msgspec.convert(tree, ResourceClaim)


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
    status = {
        "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [where]}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": f"pod-{pod}"} for pod in by],
    }
    return claim(name, namespace=namespace, status=status, **metadata)


def shared(name: str, device: str, *, node: str = "n1", **consumed: str) -> ResourceClaim:
    """A claim that holds a share of a device."""
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device}
    result |= {"shareID": "00000000-0000-0000-0000-000000000001", "consumedCapacity": consumed}
    return claim(name, status={"allocation": {"devices": {"results": [result]}}})


def template(name: str = "t", *requests: dict[str, Any]) -> ResourceClaimTemplate:
    tree = objects.template(name, *(requests or (wants(),)), namespace="default")
    return msgspec.convert(tree, ResourceClaimTemplate)


def pod(
    name: str = "p",
    *,
    claims: Sequence[str | dict[str, Any]] = ("c",),
    cpu: str = "1",
    labels: Mapping[str, str] = {},
    status: Any = None,
    **more: Any,
) -> Pod:
    tree = objects.pod(
        name,
        namespace="default",
        needs={"requests": {"cpu": cpu}},
        metadata={"uid": f"pod-{name}", "labels": dict(labels)},
        status=status or {"phase": "Pending"},
        resourceClaims=[{"name": c, "resourceClaimName": c} if isinstance(c, str) else c for c in claims],
        **more,
    )
    return msgspec.convert(tree, Pod)


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
