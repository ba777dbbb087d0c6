"""What 5,000 waiting pods over 10 node groups cost to plan for, and how far the plan is from its lower bound.

Pods ask for 1, 2, 4 or 8 devices of one of four models; 30 % of them have alternatives, some of the others need all
their devices on one PCIe root. Prices and pods differ by seed. Compare the gap with 5 %.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from dray.autoscaling.groups import NodeGroups, read
from dray.autoscaling.planner import plan
from dray.sim.cluster import Cluster

PODS = 5000
SEEDS = range(10)
DRIVER = "gpu.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
SIZES = (1, 2, 4, 8)
MODELS = ("a100", "h100", "l4", "mi300")
GROUPS = (  # model, devices of a node, price an hour
    ("a100", 1, 3.9),
    ("a100", 4, 13.5),
    ("a100", 8, 26.0),
    ("h100", 2, 11.8),
    ("h100", 8, 45.0),
    ("l4", 1, 0.9),
    ("l4", 4, 3.2),
    ("l4", 8, 6.1),
    ("mi300", 4, 17.5),
    ("mi300", 8, 33.0),
)


def case(seed: int, pods: int = PODS) -> tuple[NodeGroups, list[dict[str, Any]]]:
    """Groups, and the templates and pods that wait for them."""
    rng = random.Random(seed)
    groups = [_group(model, size, price * rng.uniform(0.9, 1.1)) for model, size, price in GROUPS]
    plain, alternative = [*_plain()], [*_alternatives()]
    objects = [_template(name, devices) for name, devices in (*plain, *alternative)]
    for number in range(pods):
        name, _ = rng.choice(alternative if rng.random() < 0.3 else plain)
        objects.append(_pod(number, name))
    return read(yaml.safe_dump({"groups": groups})), objects


def cluster_of(groups: NodeGroups, objects: list[dict[str, Any]]) -> Cluster:
    cluster = Cluster([*groups.classes(()), *objects])
    cluster.settle()
    return cluster


def _group(model: str, size: int, price: float) -> dict[str, Any]:
    devices = [_device(model, number) for number in range(size)]
    template = {
        "capacity": {"cpu": str(12 * size + 4), "memory": f"{96 * size + 16}Gi", "pods": "110"},
        "classes": [{"name": "gpu", "selector": f'device.driver == "{DRIVER}"'}],
        "pools": [{"driver": DRIVER, "devices": devices}],
    }
    return {"name": f"{model}-{size}", "max": PODS, "price": price, "template": template}


def _device(model: str, number: int) -> dict[str, Any]:
    attributes = {"model": {"string": model}, ROOT: {"string": f"pci0000:{number // 4:02x}"}}
    return {"name": f"gpu-{number}", "attributes": attributes}


def _plain() -> Iterator[tuple[str, dict[str, Any]]]:
    for model in MODELS:
        for size in SIZES:
            requests = [{"name": "gpu", "exactly": _asked(model, size)}]
            yield f"{model}-{size}", {"requests": requests}
            if size in (2, 4):
                yield f"{model}-root-{size}", {"requests": requests, "constraints": [{"matchAttribute": ROOT}]}


def _alternatives() -> Iterator[tuple[str, dict[str, Any]]]:
    for model in ("a100", "l4", "mi300"):
        for size in (1, 2, 4):
            more = 2 * size if model == "l4" else size
            ways = [{"name": "fast", **_asked("h100", size)}, {"name": "slow", **_asked(model, more)}]
            yield f"{model}-or-{size}", {"requests": [{"name": "gpu", "firstAvailable": ways}]}


def _asked(model: str, count: int) -> dict[str, Any]:
    expression = f'device.attributes["{DRIVER}"].model == "{model}"'
    return {"deviceClassName": "gpu", "count": count, "selectors": [{"cel": {"expression": expression}}]}


def _template(name: str, devices: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": devices}},
    }


def _pod(number: int, template: str) -> dict[str, Any]:
    cpu = 4 * int(template.rpartition("-")[2])
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "spec": {"containers": [container], "resourceClaims": claims},
    }


def main() -> None:
    for seed in SEEDS:
        groups, objects = case(seed)
        objects = msgspec.json.decode(msgspec.json.encode(objects))  # each its own
        begun, used = time.perf_counter(), time.process_time()
        cluster = cluster_of(groups, objects)
        waited = time.perf_counter() - begun
        found = plan(cluster, groups)
        seconds, used = time.perf_counter() - begun, time.process_time() - used
        print(
            f"seed {seed}: {PODS} pods, {len(GROUPS)} groups: {seconds:.2f} s ({used:.2f} s of processor), of which "
            f"{waited:.2f} s for the first try of all pods; {len(found.nodes)} nodes, price {found.price:.0f}, lower bound {found.lower_bound:.0f}, "
            f"gap {100 * found.gap:.2f} %",
            flush=True,
        )
