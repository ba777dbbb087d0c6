"""Workload: the groups of pods that belong together, as templates of PodGroups."""

from __future__ import annotations

from dray.api.kind import GROUP_VERSIONS, SCHEDULING, Resource
from dray.api.types import scheduling

KIND = Resource(
    SCHEDULING,
    "workloads",
    "Workload",
    scheduling.Workload,
    versions=GROUP_VERSIONS,
    stored="v1beta1",
    gate="GenericWorkload",
)
