"""Namespace: where the objects of one user or purpose are."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, text
from dray.api.kind import Resource
from dray.api.types import core

KIND = Resource(
    "",
    "namespaces",
    "Namespace",
    core.Namespace,
    namespaced=False,
    short_names=("ns",),
    subresources=("finalize", "status"),
    columns=(
        NAME,
        text("Status", "status.phase"),
        AGE,
    ),
)
