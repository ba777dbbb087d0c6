"""Assumed changes to a simulated cluster: drained nodes, added nodes, tainted nodes or devices.

Each change is applied in a trial that is undone. Left out: evictions by the NoExecute effect.
"""

from __future__ import annotations

from msgspec.structs import replace

from dray.api.types.core import Node, Pod, Taint
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceSlice,
)
from dray.sim.cluster import Cluster
from dray.sim.copies import daemon_like, is_daemon, node_like, slice_like, unplaced

EFFECTS = ("NoSchedule",)


class ChangeError(ValueError):
    """A change that cannot be applied. The message says why."""


def drain(cluster: Cluster, name: str) -> list[Pod]:
    """Cordon a node and recreate its pods, except those of DaemonSets. Returns the pods that must move.

    The pods are returned without their node, and wait in the cluster.
    """
    node = _node(cluster, name)
    cluster.add(replace(node, spec=replace(node.spec, unschedulable=True)))
    moved = [unplaced(pod) for pod in cluster.pods_on(name) if not is_daemon(pod)]
    for pod in moved:
        cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)
    cluster.add(*moved)
    return moved


def add_nodes(cluster: Cluster, count: int, like: str) -> list[str]:
    """Add nodes like an existing node, each with its own devices and daemons but without other pods.

    Returns their names.
    """
    node = _node(cluster, like)
    slices = [piece for piece in cluster.all(ResourceSlice) if piece.spec.nodeName == like]
    daemons = [pod for pod in cluster.pods_on(like) if is_daemon(pod)]
    names = [f"{like}-new-{number}" for number in range(1, count + 1)]
    for name in names:
        cluster.add(node_like(node, name))
        cluster.add(*(slice_like(piece, like, name) for piece in slices))
        cluster.add(*(daemon_like(pod, name) for pod in daemons))
    return names


def taint(cluster: Cluster, target: str, text: str) -> None:
    """Add a taint KEY[=VALUE]:NoSchedule to a node, or to devices given as DRIVER/POOL or DRIVER/POOL/DEVICE.

    Raises ChangeError if the taint or the target is invalid.
    """
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if not key or effect not in EFFECTS:
        raise ChangeError(f"taint {text!r}: expected KEY[=VALUE]:NoSchedule")
    if "/" in target:
        _taint_devices(cluster, target, DeviceTaint(effect=effect, key=key, value=value))
    else:
        node = _node(cluster, target)
        taints = (*node.spec.taints, Taint(effect=effect, key=key, value=value))
        cluster.add(replace(node, spec=replace(node.spec, taints=taints)))


def _taint_devices(cluster: Cluster, target: str, added: DeviceTaint) -> None:
    driver, pool, device = [*target.split("/", 2), ""][:3]
    known = {
        one.name
        for piece in cluster.all(ResourceSlice)
        if (piece.spec.driver, piece.spec.pool.name) == (driver, pool)
        for one in piece.spec.devices
    }
    if not known or (device and device not in known):
        raise ChangeError(f"there are no devices {target}; expected DRIVER/POOL or DRIVER/POOL/DEVICE")
    selector = DeviceTaintSelector(driver=driver, pool=pool, device=device or None)
    meta = ObjectMeta(name=f"supposed-{len([*cluster.all(DeviceTaintRule)])}")
    cluster.add(DeviceTaintRule(metadata=meta, spec=DeviceTaintRuleSpec(deviceSelector=selector, taint=added)))


def _node(cluster: Cluster, name: str) -> Node:
    """Return the node of this name. Raises ChangeError if it does not exist."""
    found = cluster.get(Node, name)
    if found is None:
        raise ChangeError(f"there is no node {name}")
    return found
