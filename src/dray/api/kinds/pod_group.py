"""PodGroup: pods that are scheduled together."""

from __future__ import annotations

from dray.api.kind import GROUP_VERSIONS, SCHEDULING, STATUS, Resource
from dray.api.types import scheduling

KIND = Resource(
    SCHEDULING,
    "podgroups",
    "PodGroup",
    scheduling.PodGroup,
    versions=GROUP_VERSIONS,
    stored="v1beta1",
    subresources=STATUS,
    gate="GenericWorkload",
)
