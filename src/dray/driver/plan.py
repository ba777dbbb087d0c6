"""Computes which ResourceSlices to delete, update and create so that a pool is published correctly. Pure.

A reader must never take a mixture of old and new slices for a complete pool. So whenever more than one write is
needed, the generation is raised and every slice of the pool is written; a change that fits into one write keeps the
generation. Names follow from driver, node, pool and position, so every publisher of the same pool, after a restart or
as a second instance in a rolling update, uses the same names. Left out: the writes themselves (`publisher`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from dray.api import decode
from dray.api.errors import BadRequest
from dray.api.resources import BY_TYPE
from dray.api.types.resource import ResourceSlice, ResourceSliceSpec
from dray.api.wire import Tree

AcceptedSlices = Mapping[str, tuple[ResourceSliceSpec, ResourceSliceSpec]]
"""By name: the spec that was sent, and the spec that the server stored (without fields whose feature is off)."""

_SLICES = BY_TYPE[ResourceSlice]
_NODE_CHARACTERS = 150  # characters of a node's name in a slice's name; the hash distinguishes longer names


@dataclass
class SlicePlan:
    """Writes in the order of their execution. Deletions come first, so that removed devices are not allocated."""

    delete: list[ResourceSlice] = field(default_factory=list)
    update: list[Tree] = field(default_factory=list)
    create: list[Tree] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.delete or self.update or self.create)


@dataclass(frozen=True)
class Owner:
    """The node that owns slices, so that they are deleted together with the node."""

    name: str
    uid: str

    def reference(self) -> Tree:
        return {"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": self.uid, "controller": True}


def slice_name(index: int, driver: str, node: str, pool: str) -> str:
    """Return the name of a pool's slice. It begins with the position, as the scheduler reads slices by name.

    `index` is the slice's position in the pool. `node` is "" for devices that are not local to a node.
    """
    digest = hashlib.sha256("\0".join((driver, node, pool)).encode()).hexdigest()[:8]
    where = node[:_NODE_CHARACTERS].rstrip("-.") or "network"
    return f"{index:05x}-{driver}-{where}-{digest}"


def plan(
    specs: Sequence[Tree],
    existing: Sequence[ResourceSlice],
    node: str = "",
    owner: Owner | None = None,
    accepted: AcceptedSlices | None = None,
) -> SlicePlan:
    """Return the writes that turn the existing slices of a pool into the wanted `specs` (empty: pool is gone).

    `node` is "" for devices that are not local to a node. The generation rises if slices are added or more than one
    is changed.
    """
    names = [slice_name(i, spec["driver"], node, spec["pool"]["name"]) for i, spec in enumerate(specs)]
    there = {one.metadata.name: one for one in existing}
    generation = max((one.spec.pool.generation for one in existing), default=0)

    def wanted(generation: int) -> dict[str, Tree]:
        pairs = zip(names, specs, strict=True)
        return {name: _tree(name, spec, generation, owner, there.get(name)) for name, spec in pairs}

    trees = wanted(generation)
    changed = [name for name in names if name in there and _differs(there[name], trees[name], accepted or {})]
    missing = [name for name in names if name not in there]
    if missing or len(changed) > 1:
        trees = wanted(generation + 1)
        changed = [name for name in names if name in there]
    return SlicePlan(
        delete=[one for one in existing if one.metadata.name not in trees],
        update=[trees[name] for name in changed],
        create=[trees[name] for name in missing],
    )


def typed(tree: Tree) -> ResourceSlice:
    """Return a slice as a typed object. Raises `BadRequest` if the driver's devices do not have the API's form."""
    copy: Tree = msgspec.json.decode(msgspec.json.encode(tree))
    complaints = decode.check(_SLICES, _SLICES.stored, copy)
    if complaints:
        raise BadRequest(f"slice {tree['metadata']['name']}: {', '.join(complaints)}")
    return msgspec.convert(copy, ResourceSlice)


def _tree(name: str, spec: Tree, generation: int, owner: Owner | None, old: ResourceSlice | None) -> Tree:
    """Return the slice to write. An update requires the version that was read, and keeps other components' labels.

    `old` is the slice of this name that exists, or None to create it. `generation` is that of the pool.
    """
    metadata: Tree = msgspec.to_builtins(old.metadata) if old else {}
    metadata["name"] = name
    if owner:
        metadata["ownerReferences"] = [owner.reference()]
    spec = {**spec, "pool": {**spec["pool"], "generation": generation}}
    if old is not None and "devices" in spec:
        spec["devices"] = _with_taint_dates(spec["devices"], old.spec)
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def _differs(old: ResourceSlice, tree: Tree, accepted: AcceptedSlices) -> bool:
    """Whether a slice must be written again: owner or spec differ from what the server would store.

    Returns False if the server stores a changed form of the same spec and that form is in place.
    """
    new = typed(tree)
    if new.metadata.ownerReferences != old.metadata.ownerReferences:
        return True
    return new.spec != old.spec and accepted.get(old.metadata.name) != (new.spec, old.spec)


def _with_taint_dates(devices: Sequence[Tree], before: ResourceSliceSpec) -> list[Tree]:
    """Return the devices with the time of each taint that has not changed, because the server sets these times."""
    dates = {
        (one.name, taint.key, taint.value, taint.effect): taint.timeAdded
        for one in before.devices
        for taint in one.taints
        if taint.timeAdded
    }

    def dated(name: str, taint: Tree) -> Tree:
        date = dates.get((name, taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")))
        return {"timeAdded": date, **taint} if date else taint

    return [
        {**one, "taints": [dated(one["name"], taint) for taint in one["taints"]]} if one.get("taints") else one
        for one in devices
    ]
