"""HorizontalPodAutoscaler: changes the number of pods with their load. v1 knows the processor only."""

from __future__ import annotations

from dray.api.kind import ALL, STATUS, Resource
from dray.api.types import autoscaling

KIND = Resource(
    "autoscaling",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    autoscaling.HorizontalPodAutoscaler,
    versions=("v2", "v1"),
    stored="v2",
    short_names=("hpa",),
    categories=ALL,
    subresources=STATUS,
    inert=True,
)
