"""Typed objects for tests of the pure parts, from trees."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.times import timestamp
from dray.api.types.apps import Deployment, ReplicaSet
from dray.api.types.core import Pod
from tests import objects


def pod(name: str = "p", *, node: str = "", phase: str = "Pending", ready: float | None = None, **meta: Any) -> Pod:
    conditions = []
    if ready is not None:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": timestamp(ready)})
    restarts = meta.pop("restarts", 0)
    containers = [{"name": "c", "image": "", "imageID": "", "ready": True, "restartCount": restarts, "state": {}}]
    status = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
    tree = objects.pod(name, namespace="ns", node=node, metadata={"uid": name, **meta}, status=status)
    return msgspec.convert(tree, Pod)


def replica_set(
    name: str, replicas: int, available: int | None = None, *, age: int = 0, annotations: dict[str, str] | None = None
) -> ReplicaSet:
    """A set that was created `age` seconds before the others."""
    metadata = {
        "name": name,
        "uid": name,
        "creationTimestamp": timestamp(1_000_000 - age),
        "annotations": annotations or {},
        "generation": 1,
    }
    there = replicas if available is None else available
    status = {"replicas": replicas, "availableReplicas": there, "observedGeneration": 1}
    return msgspec.convert({"metadata": metadata, "spec": {"replicas": replicas}, "status": status}, ReplicaSet)


def deployment(replicas: int, surge: int | str = "25%", unavailable: int | str = "25%", **spec: Any) -> Deployment:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    tree = {
        "metadata": {"name": "web", "namespace": "ns", "uid": "1", "generation": 1},
        "spec": {"replicas": replicas, "strategy": strategy, **spec},
    }
    return msgspec.convert(tree, Deployment)
