"""PodMetrics: resource usage of a pod's containers; measured on request and not stored."""

from __future__ import annotations

from dray.api.kind import READ_ONLY, Resource
from dray.api.types import metrics

KIND = Resource(metrics.PodMetrics, plural="pods", verbs=READ_ONLY)
