"""CompositePodGroup: a group of groups of pods. It is only stored."""

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
