"""NodeMetrics: resource usage of a node; measured on request and not stored."""

from __future__ import annotations

from dray.api.kind import READ_ONLY, Resource
from dray.api.types import metrics

KIND = Resource(metrics.NodeMetrics, plural="nodes", namespaced=False, verbs=READ_ONLY)
