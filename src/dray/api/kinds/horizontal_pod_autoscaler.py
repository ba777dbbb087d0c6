"""HorizontalPodAutoscaler: changes the number of pods with their load. v1 knows the processor only."""

from __future__ import annotations

from dray.api.cells import NONE, UNSET
from dray.api.columns import AGE, NAME, number, text
from dray.api.kind import ALL, STATUS, Resource
from dray.api.types import autoscaling


def _metric(metric: autoscaling.MetricSpec) -> str:
    """Returns what is aimed at; nothing here measures what is."""
    source = metric.resource or metric.containerResource or metric.pods or metric.object or metric.external
    if source is None:
        return "<unknown type>"
    target = source.target
    if target.averageUtilization is not None:
        name = f"{getattr(source, 'name', '')}: " if metric.resource or metric.containerResource else ""
        return f"{name}<unknown>/{target.averageUtilization}%"
    return f"<unknown>/{target.averageValue or target.value}"


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
    columns=(
        NAME,
        text("Reference", lambda scaler: f"{scaler.spec.scaleTargetRef.kind}/{scaler.spec.scaleTargetRef.name}"),
        text("Targets", lambda scaler: ", ".join(map(_metric, scaler.spec.metrics)), NONE),
        text("MinPods", lambda scaler: UNSET if scaler.spec.minReplicas is None else str(scaler.spec.minReplicas)),
        number("MaxPods", "spec.maxReplicas"),
        number("Replicas", "status.currentReplicas"),
        AGE,
    ),
)
