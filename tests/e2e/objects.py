"""Objects of a cluster with simulated nodes: in the namespace default, for devices of the class that it has."""

from __future__ import annotations

from typing import Any

from dray.api.wire import Tree
from dray.sim.hardware import CLASS, DRIVER
from tests import objects

NAMESPACE = "default"


def request(name: str = "r", class_: str = CLASS, *, count: int = 0, selector: str = "", **more: Any) -> Tree:
    amount = {"count": count} if count else {}
    return objects.request(name, class_, selectors=[selector] if selector else (), **amount, **more)


def alternatives(*listed: Tree, name: str = "r") -> Tree:
    """A request with alternatives, each given as a request of its own."""
    return {"name": name, "firstAvailable": [{"name": one["name"], **one["exactly"]} for one in listed]}


def spec(*requests: Tree, **devices: Any) -> Tree:
    return objects.claim_spec(*requests, device_class=CLASS, **devices)


def claim(name: str = "c", *requests: Tree, namespace: str = NAMESPACE, **devices: Any) -> Tree:
    return objects.claim(name, *requests, namespace=namespace, device_class=CLASS, **devices)


def template(name: str = "t", *requests: Tree, namespace: str = NAMESPACE, **devices: Any) -> Tree:
    return objects.template(name, *requests, namespace=namespace, device_class=CLASS, **devices)


def pod(
    name: str,
    *,
    namespace: str = NAMESPACE,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **more: Any,
) -> Tree:
    """A pod that uses claims (entries c0, c1, …) and templates (entries t0, t1, …)."""
    metadata = {"annotations": annotations or {}, "labels": labels or {}}
    return objects.pod(name, namespace=namespace, container="main", metadata=metadata, **more)


def on_node(name: str) -> Tree:
    """What keeps a pod to one node, in its spec."""
    return {"nodeSelector": {"kubernetes.io/hostname": name}}


def device_class(name: str, selector: str = "") -> Tree:
    return objects.device_class(name, *([selector] if selector else []))


def device(name: str, *, capacity: dict[str, str] | None = None, **attributes: str | bool | int) -> Tree:
    kinds = {str: "string", bool: "bool", int: "int"}
    return {
        "name": name,
        "attributes": {key: {kinds[type(value)]: value} for key, value in attributes.items()},
        "capacity": {key: {"value": value} for key, value in (capacity or {}).items()},
    }


def slice_of(name: str, node: str, *devices: Tree, driver: str = DRIVER, **more: Any) -> Tree:
    """A slice of a pool; the pool is the node's unless it is named."""
    return objects.resource_slice(name, node=node, driver=driver, devices=list(devices), **more)
