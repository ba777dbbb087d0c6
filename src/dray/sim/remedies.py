"""One change after which a pod gets its node, found by trying: a pod that ends, a taint that goes, a node that comes.

Every candidate is tried in a trial of the whole cluster, so what is suggested was seen to work. Left out: several changes
at once, and whether anybody wants the change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.sim.changes import add_nodes
from dray.sim.cluster import Cluster

_PODS_TRIED = 8
_NODES_TRIED = 8


class Remedy(msgspec.Struct, frozen=True):
    """A change that helps: `end-pod`, `untaint` (a key of taints of devices) or `add-node` (one more like `subject`).

    `node` is where the pod then goes.
    """

    code: str
    subject: str
    node: str


def remedy_for(cluster: Cluster, pod: Pod, holders: Iterable[str], deadline: float) -> Remedy | None:
    """The first change that helps; None where none of those that are tried does. `holders` are claims, by their names
    in full, that have devices of the kind that the pod wants."""
    for code, subject, change in _candidates(cluster, pod, holders):
        if time.monotonic() > deadline:
            return None
        with cluster.fork() as trial:
            change(trial)
            trial.settle()
            found = trial.get(Pod, pod.metadata.name, pod.metadata.namespace)
            if found is not None and found.spec.nodeName:
                return Remedy(code, subject, found.spec.nodeName)
    return None


def _candidates(
    cluster: Cluster, pod: Pod, holders: Iterable[str]
) -> Iterator[tuple[str, str, Callable[[Cluster], None]]]:
    for key in _taint_keys(cluster):
        yield "untaint", key, lambda trial, key=key: _untaint(trial, key)  # type: ignore[misc]
    for user in _users(cluster, holders, pod)[:_PODS_TRIED]:
        name = f"{user.metadata.namespace}/{user.metadata.name}"
        yield "end-pod", name, lambda trial, user=user: trial.remove(Pod, user.metadata.name, user.metadata.namespace)  # type: ignore[misc]
    for node in _kinds_of_nodes(cluster)[:_NODES_TRIED]:
        yield "add-node", node, lambda trial, node=node: add_nodes(trial, 1, node) and None  # type: ignore[misc]


def _taint_keys(cluster: Cluster) -> list[str]:
    rules = {rule.spec.taint.key for rule in cluster.all(DeviceTaintRule)}
    own = {
        taint.key
        for piece in cluster.all(ResourceSlice)
        for device in piece.spec.devices
        if device.taints
        for taint in device.taints
    }
    return sorted(rules | own)


def _untaint(trial: Cluster, key: str) -> None:
    for rule in [*trial.all(DeviceTaintRule)]:
        if rule.spec.taint.key == key:
            trial.remove(DeviceTaintRule, rule.metadata.name)
    for piece in [*trial.all(ResourceSlice)]:
        if any(taint.key == key for device in piece.spec.devices for taint in device.taints):
            devices = tuple(
                replace(device, taints=tuple(taint for taint in device.taints if taint.key != key))
                for device in piece.spec.devices
            )
            trial.add(replace(piece, spec=replace(piece.spec, devices=devices)))


def _users(cluster: Cluster, holders: Iterable[str], pod: Pod) -> list[Pod]:
    """The pods for which claims are reserved, those of the least priority first."""
    found: dict[str, Pod] = {}
    for name in holders:
        claim = cluster.get(ResourceClaim, *reversed(name.split("/", 1)))
        for reference in claim.status.reservedFor if claim is not None else ():
            user = cluster.get(Pod, reference.name, claim.metadata.namespace) if claim is not None else None
            if user is not None and user.metadata.uid == reference.uid and reference.uid != pod.metadata.uid:
                found[reference.uid] = user
    return sorted(found.values(), key=lambda user: user.spec.priority or 0)


def _kinds_of_nodes(cluster: Cluster) -> list[str]:
    """One node of each kind: nodes are alike if they have as much room and as many devices of each driver."""
    devices: dict[str, dict[str, int]] = {}
    for piece in cluster.all(ResourceSlice):
        if piece.spec.nodeName:
            of = devices.setdefault(piece.spec.nodeName, {})
            of[piece.spec.driver] = of.get(piece.spec.driver, 0) + len(piece.spec.devices)
    kinds: dict[object, str] = {}
    for node in cluster.all(Node):
        room = tuple(sorted(node.status.allocatable.items()))
        kinds.setdefault((room, tuple(sorted(devices.get(node.metadata.name, {}).items()))), node.metadata.name)
    return sorted(kinds.values())
