"""NodeMetrics: what a node uses; measured when it is asked for, and stored nowhere."""

from __future__ import annotations

from dray.api.kind import METRICS, READ_ONLY, Resource
from dray.api.types import metrics

KIND = Resource(
    METRICS,
    "nodes",
    "NodeMetrics",
    metrics.NodeMetrics,
    versions=("v1beta1",),
    stored="v1beta1",
    namespaced=False,
    verbs=READ_ONLY,
)
