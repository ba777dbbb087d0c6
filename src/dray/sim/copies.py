"""Copies of a node, of its node-local slices and of its daemons under another name. No I/O.

Pools that several nodes can reach are not copied, because a new node does not bring them.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dray.api.types.core import Node, NodeCondition, Pod, PodStatus
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import ResourceSlice

HOSTNAME = "kubernetes.io/hostname"
_STATE = "node.kubernetes.io/"  # prefix of taints for the state of the old node


def is_daemon(pod: Pod) -> bool:
    """Whether a pod belongs to its node: owned by a DaemonSet or by the node itself."""
    return any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.ownerReferences)


def unplaced(pod: Pod, **spec: Any) -> Pod:
    """Return the pod as its controller would recreate it: no uid, no node, empty status, with optional spec changes."""
    meta = replace(pod.metadata, uid="", deletionTimestamp=None)
    return replace(pod, metadata=meta, spec=replace(pod.spec, nodeName="", **spec), status=PodStatus())


def node_like(node: Node, name: str) -> Node:
    """Return a ready, schedulable node with capacity, labels and taints of another node."""
    meta = ObjectMeta(name=name, labels={**node.metadata.labels, HOSTNAME: name})
    ready = (NodeCondition(type="Ready", status="True"),)
    others = tuple(one for one in node.status.conditions if one.type != "Ready")
    taints = tuple(one for one in node.spec.taints if not one.key.startswith(_STATE))
    spec = replace(node.spec, unschedulable=False, taints=taints)
    return replace(node, metadata=meta, spec=spec, status=replace(node.status, conditions=(*ready, *others)))


def slice_like(piece: ResourceSlice, old: str, new: str) -> ResourceSlice:
    """Return the slice of one node as the driver would publish it on another node."""
    pool = new if piece.spec.pool.name == old else f"{piece.spec.pool.name}-{new}"
    spec = replace(piece.spec, nodeName=new, pool=replace(piece.spec.pool, name=pool))
    name = piece.metadata.name
    named = name.replace(old, new, 1) if old in name else f"{name}-{new}"
    return replace(piece, metadata=ObjectMeta(name=named), spec=spec)


def daemon_like(pod: Pod, node: str) -> Pod:
    """Return the daemon pod of one node as it would be on another node."""
    made = unplaced(pod, nodeSelector={HOSTNAME: node}, affinity=None)
    return replace(made, metadata=replace(made.metadata, name=f"{pod.metadata.name}-{node}"))
