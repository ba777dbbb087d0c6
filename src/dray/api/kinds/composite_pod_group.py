"""CompositePodGroup: a group of groups of pods. It is only stored."""

from __future__ import annotations

from dray.api.kind import SCHEDULING, STATUS, Resource
from dray.api.types import scheduling

KIND = Resource(
    SCHEDULING,
    "compositepodgroups",
    "CompositePodGroup",
    scheduling.CompositePodGroup,
    versions=("v1alpha3",),
    stored="v1alpha3",
    subresources=STATUS,
    gate="CompositePodGroup",
    inert=True,
    conditional=("v1alpha3",),
    defaults={"spec.disruptionMode": {"single": {}}},
)
