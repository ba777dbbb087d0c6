"""RuntimeClass: which container runtime runs pods, and what it costs."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, text
from dray.api.kind import Resource
from dray.api.types import node

KIND = Resource(
    "node.k8s.io",
    "runtimeclasses",
    "RuntimeClass",
    node.RuntimeClass,
    namespaced=False,
    columns=(
        NAME,
        text("Handler", "handler"),
        AGE,
    ),
)
