"""Validation of HorizontalPodAutoscalers in the form of autoscaling/v2."""

from __future__ import annotations

from dray.api.constraints import checked
from dray.api.errors import forbidden, invalid, required, unsupported
from dray.api.paths import Path
from dray.api.types import autoscaling
from dray.api.validation.lists import Errors

_V2 = "io.k8s.api.autoscaling.v2."
_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_SOURCES = ("object", "external", "pods", "resource", "containerResource")  # only the first one present is validated
_TARGETS = ("AverageValue", "Utilization", "Value")


def bounds(spec: autoscaling.HorizontalPodAutoscalerSpec, path: Path) -> Errors:
    """Yield an error if maxReplicas is less than minReplicas."""
    if spec.minReplicas is not None and spec.maxReplicas < spec.minReplicas:
        yield invalid(path / "maxReplicas", spec.maxReplicas, "must be greater than or equal to `minReplicas`")


def api_version(target: autoscaling.CrossVersionObjectReference, path: Path) -> Errors:
    """Yield an error if the apiVersion of the scale target is malformed or lacks a group."""
    text, path = target.apiVersion, path / "apiVersion"
    if text.count("/") > 1:
        yield invalid(path, text, f"unexpected GroupVersion string: {text}")
    elif "/" not in text and text != "v1":
        yield invalid(path, text, "apiVersion must specify API group")


def metric_of_kind(metric: autoscaling.MetricSpec, path: Path) -> Errors:
    """Yield errors unless a metric has a valid source of exactly its type."""
    if not metric.type:
        yield required(path / "type", "must specify a metric source type")
    if metric.type not in _METRICS:
        yield unsupported(path / "type", metric.type, sorted(_METRICS))
    chosen = [field for field in _SOURCES if getattr(metric, field) is not None]
    if chosen:
        source = getattr(metric, chosen[0])
        yield from checked(f"{_V2}{type(source).__name__}", source, path / chosen[0])
        yield from _targets(source.target, chosen[0], path / chosen[0] / "target")
    wanted = _METRICS.get(metric.type, "")
    if not wanted:  # reported twice, as in Kubernetes
        yield unsupported(path / "type", metric.type, sorted(_METRICS))
    elif wanted not in chosen:
        yield required(path / wanted, "must populate information for the given metric source")
    if len(chosen) > 1:
        for field in sorted({*chosen} - {wanted}):
            yield forbidden(path / field, "must populate the given metric source only")


def target_type(target: autoscaling.MetricTarget, path: Path) -> Errors:
    """Yield errors if the type of a metric target is missing or unknown."""
    if not target.type:
        yield required(path / "type", "must specify a metric target type")
    if target.type not in _TARGETS:
        yield invalid(path / "type", target.type, "must be either Utilization, Value, or AverageValue")


def _targets(target: autoscaling.MetricTarget, kind: str, path: Path) -> Errors:
    """Yield errors if a metric of this kind does not have the required target fields."""
    utilization, value, average = target.averageUtilization, target.value, target.averageValue
    if kind in ("resource", "containerResource"):
        if utilization is None and average is None:
            text = "must set either a target raw value or a target utilization"
            yield required(path / "averageUtilization", text)
        if utilization is not None and average is not None:
            text = "may not set both a target raw value and a target utilization"
            yield forbidden(path / "averageValue", text)
    elif kind == "pods":
        if average is None:
            yield required(path / "averageValue", "must specify a positive target averageValue")
    elif value is None and average is None:
        either = (
            "a target value or averageValue" if kind == "object" else "a target value for metric or a per-pod target"
        )
        yield required(path / "averageValue", f"must set either {either}")
    elif kind == "external" and value is not None and average is not None:
        yield forbidden(path / "value", "may not set both a target value for metric and a per-pod target")
