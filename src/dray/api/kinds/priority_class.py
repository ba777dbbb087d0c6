"""PriorityClass: a named priority of pods."""

from __future__ import annotations

from dray.api.kind import SCHEDULING, Resource
from dray.api.types import scheduling

KIND = Resource(
    SCHEDULING, "priorityclasses", "PriorityClass", scheduling.PriorityClass, namespaced=False, short_names=("pc",)
)
