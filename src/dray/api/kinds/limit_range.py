"""LimitRange: bounds and defaults of what the containers and claims of a namespace ask for."""

from __future__ import annotations

from dray.api.cells import UNKNOWN
from dray.api.columns import NAME, text
from dray.api.kind import Resource
from dray.api.types import core

KIND = Resource(
    "",
    "limitranges",
    "LimitRange",
    core.LimitRange,
    short_names=("limits",),
    columns=(
        NAME,
        text("Created At", "metadata.creationTimestamp", UNKNOWN),
    ),
)
