"""Short ways to make the objects that scheduler tests talk about."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.types.core import Node, Pod
from dray.verdicts.nodes import NodeTable
from tests import objects


def pod(name: str, node: str = "", priority: int = 0, labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    container = {"name": "c", "image": "i", "resources": spec.pop("resources", {}), "ports": spec.pop("ports", [])}
    tree = objects.pod(
        name,
        namespace=spec.pop("namespace", "default"),
        node=node,
        metadata={"uid": f"uid-{name}", "labels": labels or {}},
        containers=[container],
        priority=priority,
        **spec,
    )
    return msgspec.convert(tree, Pod)


def node(
    name: str, labels: dict[str, str] | None = None, taints: list[dict[str, str]] | None = None, **allocatable: str
) -> Node:
    tree = objects.node(
        name,
        labels={"kubernetes.io/hostname": name, **(labels or {})},
        taints=taints or [],
        status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", **allocatable}},
    )
    return msgspec.convert(tree, Node)


def put(table: NodeTable, new: Node) -> None:
    """Add a node at its old position or at the first that is free."""
    known = table.get(new.metadata.name)
    free = next((i for i, info in enumerate(table.infos) if info is None), len(table.infos))
    table.upsert(new, known.position if known is not None and known.node is not None else free)
