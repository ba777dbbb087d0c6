"""Workloads that make pods: which one writes the spec of a pod, and how it is changed there.

Left out: Jobs, whose template cannot be changed, and owners of kinds that are not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.api.objects import Object
from dray.api.reasons.suggestions import SuggestedChange
from dray.api.types.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from dray.api.types.core import Pod
from dray.api.types.meta import OwnerReference
from dray.api.wire import Tree, tree_of
from dray.inspect.changes import deleted, patched
from dray.inspect.snapshot import Snapshot

Maker = Deployment | ReplicaSet | StatefulSet | DaemonSet
MAKERS: tuple[type[Any], ...] = (Deployment, ReplicaSet, StatefulSet, DaemonSet)


def maker_of(pod: Pod, snapshot: Snapshot) -> Maker | None:
    """The workload in which the spec of a pod is written, if it is known and can be changed."""
    found = _owner(pod, snapshot)
    if isinstance(found, ReplicaSet) and _controller(found) is not None:
        return _owner(found, snapshot)
    return found


def _controller(object_: Object) -> OwnerReference | None:
    return next((owner for owner in object_.metadata.ownerReferences if owner.controller), None)


def _owner(object_: Object, snapshot: Snapshot) -> Maker | None:
    reference = _controller(object_)
    if reference is None:
        return None
    type_ = next((one for one in MAKERS if one.__name__ == reference.kind), None)
    found = snapshot.get(type_, reference.name, object_.metadata.namespace) if type_ is not None else None
    return found if found is not None and found.metadata.uid == reference.uid else None


def with_template(maker: Maker, pod: Pod, edit: Callable[[Tree], None]) -> tuple[SuggestedChange, ...]:
    """The change of the template, and the end of the pod where its workload would leave it as it is."""
    old: Tree = tree_of(maker)["spec"]["template"]["spec"]
    new: Tree = tree_of(maker)["spec"]["template"]["spec"]
    edit(new)
    if old == new:
        return (deleted(pod),)
    change = patched(maker, {"spec": {"template": {"spec": _difference(old, new)}}})
    return (change,) if isinstance(maker, Deployment) else (change, deleted(pod))


def _difference(old: Tree, new: Tree) -> Tree:
    """The merge patch that leads from one tree to another."""
    patch: Tree = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if value != before:
                patch[key] = _difference(before, value)
        elif value != before:
            patch[key] = value
    return patch
