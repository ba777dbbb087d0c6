"""PodMetrics: what the containers of a pod use; measured when it is asked for, and stored nowhere."""

from __future__ import annotations

from dray.api.kind import METRICS, READ_ONLY, Resource
from dray.api.types import metrics

KIND = Resource(
    METRICS, "pods", "PodMetrics", metrics.PodMetrics, versions=("v1beta1",), stored="v1beta1", verbs=READ_ONLY
)
