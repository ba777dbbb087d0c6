"""HorizontalPodAutoscalers, in the form of autoscaling/v2."""

from __future__ import annotations

from typing import Any

from dray.api import names
from dray.api.constraints import checked
from dray.api.errors import forbidden, invalid, required, unsupported
from dray.api.paths import SPEC, STATUS, Path
from dray.api.quantity import Quantity
from dray.api.types import autoscaling
from dray.api.validation.containers import resource_name
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, each, named, required_name

_V2 = "io.k8s.api.autoscaling.v2."
_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_SOURCES = ("object", "external", "pods", "resource", "containerResource")  # the first that is there is looked at
_TARGETS = ("AverageValue", "Utilization", "Value")


def update_autoscaler_status(
    autoscaler: autoscaling.HorizontalPodAutoscaler, old: autoscaling.HorizontalPodAutoscaler, context: Context
) -> Errors:
    yield from checked(f"{_V2}HorizontalPodAutoscalerStatus", autoscaler.status, STATUS)


def check_autoscaler(autoscaler: autoscaling.HorizontalPodAutoscaler, context: Context) -> Errors:
    spec = autoscaler.spec
    if spec.minReplicas is not None and spec.maxReplicas < spec.minReplicas:
        yield invalid(SPEC / "maxReplicas", spec.maxReplicas, "must be greater than or equal to `minReplicas`")
    yield from _reference(spec.scaleTargetRef, SPEC / "scaleTargetRef")
    yield from _api_version(spec.scaleTargetRef.apiVersion, SPEC / "scaleTargetRef" / "apiVersion")
    yield from each(spec.metrics, SPEC / "metrics", _metric)
    if spec.behavior is not None:
        yield from checked(f"{_V2}HorizontalPodAutoscalerBehavior", spec.behavior, SPEC / "behavior")


def _reference(reference: autoscaling.CrossVersionObjectReference, path: Path) -> Errors:
    for field in ("kind", "name"):
        yield from named(getattr(reference, field), path / field, names.path_segment)


def _api_version(text: str, path: Path) -> Errors:
    if text.count("/") > 1:
        yield invalid(path, text, f"unexpected GroupVersion string: {text}")
    elif "/" not in text and text != "v1":
        yield invalid(path, text, "apiVersion must specify API group")


def _metric(metric: autoscaling.MetricSpec, path: Path) -> Errors:
    if not metric.type:
        yield required(path / "type", "must specify a metric source type")
    if metric.type not in _METRICS:
        yield unsupported(path / "type", metric.type, sorted(_METRICS))
    chosen = [field for field in _SOURCES if getattr(metric, field) is not None]
    if chosen:
        yield from _source(getattr(metric, chosen[0]), chosen[0], path / chosen[0])
    wanted = _METRICS.get(metric.type, "")
    if not wanted:  # told twice, as Kubernetes does
        yield unsupported(path / "type", metric.type, sorted(_METRICS))
    elif wanted not in chosen:
        yield required(path / wanted, "must populate information for the given metric source")
    if len(chosen) > 1:
        for field in sorted({*chosen} - {wanted}):
            yield forbidden(path / field, "must populate the given metric source only")


def _source(source: Any, kind: str, path: Path) -> Errors:
    if kind == "object":
        yield from _reference(source.describedObject, path / "describedObject")
    if kind in ("resource", "containerResource") and not source.name:
        yield required(path / "name", "must specify a resource name")
    if kind == "containerResource":
        if source.name:
            yield from resource_name(source.name, path / "name")
        yield from required_name(source.container, path / "container", names.label, "must specify a container")
    if kind in ("object", "pods", "external"):
        name, here = source.metric.name, path / "metric" / "name"
        yield from required_name(name, here, names.path_segment, "must specify a metric name")
    yield from _target(source.target, path / "target")
    yield from _targets(source.target, kind, path / "target")


def _target(target: autoscaling.MetricTarget, path: Path) -> Errors:
    if not target.type:
        yield required(path / "type", "must specify a metric target type")
    if target.type not in _TARGETS:
        yield invalid(path / "type", target.type, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        amount = getattr(target, field)
        if amount is not None and Quantity.parse(amount).sign <= 0:
            yield invalid(path / field, amount, "must be positive")
    if target.averageUtilization is not None and target.averageUtilization < 1:
        yield invalid(path / "averageUtilization", target.averageUtilization, "must be greater than 0")


def _targets(target: autoscaling.MetricTarget, kind: str, path: Path) -> Errors:
    """Which of the ways to say how much there should be a metric of this kind has."""
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
