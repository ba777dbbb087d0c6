"""Short ways to write the objects that tests create."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.api.wire import Tree
from dray.sim.hardware import CLASS, DRIVER

NAMESPACE = "default"


def request(name: str = "r", class_: str = CLASS, *, count: int = 0, selector: str = "", **more: Any) -> Tree:
    exactly: Tree = {"deviceClassName": class_, **more}
    if count:
        exactly["count"] = count
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {"name": name, "exactly": exactly}


def alternatives(*listed: Tree, name: str = "r") -> Tree:
    """A request with alternatives, each given as a request of its own."""
    return {"name": name, "firstAvailable": [{"name": one["name"], **one["exactly"]} for one in listed]}


def spec(*requests: Tree, **devices: Any) -> Tree:
    return {"devices": {"requests": list(requests or (request(),)), **devices}}


def claim(name: str, *requests: Tree, namespace: str = NAMESPACE, **devices: Any) -> Tree:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec(*requests, **devices)}


def template(name: str, *requests: Tree, namespace: str = NAMESPACE, **devices: Any) -> Tree:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"spec": spec(*requests, **devices)}}


def pod(
    name: str,
    *,
    claims: Sequence[str] = (),
    templates: Sequence[str] = (),
    namespace: str = NAMESPACE,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Tree:
    """A pod that uses claims (entries c0, c1, …) and templates (entries t0, t1, …)."""
    entries: list[Tree] = [{"name": f"c{i}", "resourceClaimName": one} for i, one in enumerate(claims)]
    entries += [{"name": f"t{i}", "resourceClaimTemplateName": one} for i, one in enumerate(templates)]
    container: Tree = {"name": "main", "image": "app"}
    if entries:
        container["resources"] = {"claims": [{"name": entry["name"]} for entry in entries]}
        spec["resourceClaims"] = entries
    metadata = {"name": name, "namespace": namespace, "annotations": annotations or {}, "labels": labels or {}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def on_node(name: str) -> Tree:
    """What keeps a pod to one node, in its spec."""
    return {"nodeSelector": {"kubernetes.io/hostname": name}}


def device_class(name: str, selector: str = "") -> Tree:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    return {"metadata": {"name": name}, "spec": {"selectors": selectors}}


def device(name: str, *, capacity: dict[str, str] | None = None, **attributes: str | bool | int) -> Tree:
    kinds = {str: "string", bool: "bool", int: "int"}
    return {
        "name": name,
        "attributes": {key: {kinds[type(value)]: value} for key, value in attributes.items()},
        "capacity": {key: {"value": value} for key, value in (capacity or {}).items()},
    }


def slice_of(
    name: str, node: str, *devices: Tree, driver: str = DRIVER, pool: str = "", generation: int = 1, count: int = 1
) -> Tree:
    """A slice of a pool; the pool is the node's unless it is named."""
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool or node, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
        },
    }
