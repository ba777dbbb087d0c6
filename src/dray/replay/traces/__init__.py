"""Load traces: pods with arrival time, requested devices and run time, and their conversion to a recording.

A trace comes from a generator (`generator`) or a public trace file (`formats`) and becomes a followed recording
without placements, so `dray replay` can run it like any other. Left out: what the pods do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from dray.api.gates import FeatureGates
from dray.api.manifests import object_of
from dray.api.wire import Tree, Wire
from dray.recordings.history import RecordedEvent
from dray.recordings.recording import Recording, record, reduced
from dray.sim import hardware

NAMESPACE = "default"
WHOLE = 1000  # thousandths in a whole device
TIME = "2026-01-01T00:00:00Z"
_SHARE = "share"  # capacity that represents a fraction of a device


class TraceError(ValueError):
    """A trace that cannot be read or generated. The message says where and why."""


class TracePod(msgspec.Struct, frozen=True):
    """A pod of a trace.

    `milli` is the requested share of its single device, in thousandths; `models` lists suitable models.
    """

    name: str
    at: float  # seconds since the first pod
    runs: float  # seconds on its node
    devices: int
    cpu: int = 0  # millicores
    memory: int = 0  # MiB
    milli: int = WHOLE
    models: tuple[str, ...] = ()
    group: str = ""  # name shared by pods that arrive together


class TraceNode(msgspec.Struct, frozen=True):
    """A machine of a trace."""

    name: str
    devices: int
    cpu: int
    memory: int
    model: str = ""


def recording_of(
    pods: Sequence[TracePod], nodes: Sequence[TraceNode], others: Iterable[Tree], class_name: str, source: str
) -> Recording:
    """Return the initial recording of a trace: nodes, devices, and claim templates of its pods.

    If pods want shares of devices, the devices of `nodes` are shareable; of other devices, a share means a whole
    device.
    """
    is_shared = any(pod.milli < WHOLE for pod in pods) and class_name == hardware.CLASS
    templates = {_template_name(pod): _template(pod, class_name, is_shared) for pod in pods if pod.devices}
    trees = (*(_node_trees(nodes, is_shared) if nodes else ()), *others, *templates.values())
    gates = FeatureGates()
    objects: list[Wire] = [object_of(tree, gates) for tree in trees]
    return record(objects, time=TIME, source=source)


def events_of(pods: Sequence[TracePod]) -> Iterator[RecordedEvent]:
    """Yield an event for each pod, in order of arrival.

    Times are rounded to milliseconds.
    """
    gates = FeatureGates()
    for number, pod in enumerate(sorted(pods, key=lambda pod: pod.at), 1):
        yield RecordedEvent(round(pod.at, 3), number, put=_typed_tree(_pod_tree(pod), gates), runs=pod.runs)


def _node_trees(nodes: Sequence[TraceNode], is_shared: bool) -> Iterator[Tree]:
    """Yield class, nodes and slices of a trace."""
    yield hardware.class_tree()
    for number, node in enumerate(nodes):
        capacity = {"cpu": f"{node.cpu}m", "memory": f"{node.memory}Mi", "pods": "500"}
        yield hardware.node_tree(number, TIME, node.name, capacity)
        if node.devices:
            yield _slice_tree(node, is_shared)


def _slice_tree(node: TraceNode, is_shared: bool) -> Tree:
    device: dict[str, Any] = {"attributes": {"model": {"string": node.model}} if node.model else {}}
    if is_shared:
        device |= {"allowMultipleAllocations": True, "capacity": {_SHARE: {"value": str(WHOLE)}}}
    devices = [{"name": f"gpu-{number}", **device} for number in range(node.devices)]
    return hardware.slice_tree(f"{node.name}-gpus", hardware.DRIVER, node.name, 1, {"devices": devices})


def _template_name(pod: TracePod) -> str:
    share = f"-{pod.milli}" if pod.milli < WHOLE else ""
    return f"gpus-{pod.devices}{share}{''.join(f'-{model.lower()}' for model in pod.models)}"


def _template(pod: TracePod, class_name: str, is_shared: bool) -> Tree:
    """Return the claim template for the devices of a pod."""
    exactly: dict[str, Any] = {"deviceClassName": class_name, "count": pod.devices}
    if is_shared:
        exactly["capacity"] = {"requests": {_SHARE: str(pod.milli)}}
    if pod.models:
        listed = ", ".join(f'"{model}"' for model in pod.models)
        expression = f'device.attributes["{hardware.DRIVER}"].model in [{listed}]'
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    request = {"name": "gpus", "exactly": exactly}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": _template_name(pod), "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def _pod_tree(pod: TracePod) -> Tree:
    requests = {"cpu": f"{pod.cpu}m"} if pod.cpu else {}
    requests |= {"memory": f"{pod.memory}Mi"} if pod.memory else {}
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "trace", "resources": {"requests": requests}}]}
    if pod.devices:
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": _template_name(pod)}]
    meta: dict[str, Any] = {"name": pod.name, "namespace": NAMESPACE, "uid": pod.name}
    if pod.group:
        meta["labels"] = {"group": pod.group}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _typed_tree(tree: Tree, gates: FeatureGates) -> Tree:
    made: Tree = msgspec.to_builtins(reduced(object_of(tree, gates)))
    return made
