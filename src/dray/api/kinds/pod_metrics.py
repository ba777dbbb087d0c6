"""PodMetrics: what the containers of a pod use; measured when it is asked for, and stored nowhere."""

from __future__ import annotations

from dray.api.kind import READ_ONLY, Resource
from dray.api.types import metrics

KIND = Resource(metrics.PodMetrics, plural="pods", verbs=READ_ONLY)
