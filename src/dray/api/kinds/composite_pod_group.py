"""CompositePodGroup: a group of PodGroups. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.kind import STATUS, Resource
from dray.api.types import scheduling

KIND = Resource(
    scheduling.CompositePodGroup,
    subresources=STATUS,
    gate="CompositePodGroup",
    inert=True,
    conditional=("v1alpha3",),
    defaults={"spec.disruptionMode": {"single": {}}},
)
