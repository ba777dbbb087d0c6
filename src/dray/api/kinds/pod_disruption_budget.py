"""PodDisruptionBudget: how many pods of an application may be evicted at the same time."""

from __future__ import annotations

from dray.api.kind import STATUS, Resource
from dray.api.types import policy

KIND = Resource(
    "policy",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    policy.PodDisruptionBudget,
    short_names=("pdb",),
    subresources=STATUS,
)
