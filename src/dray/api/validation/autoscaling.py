"""HorizontalPodAutoscalers, in the form of autoscaling/v2."""

from __future__ import annotations

from typing import Any

from dray.api import names
from dray.api.errors import forbidden, invalid, required, unsupported
from dray.api.quantity import Quantity
from dray.api.types import autoscaling
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, each, required_name
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.validation.paths import SPEC, Path

_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS = ("AverageValue", "Utilization", "Value")
_SELECT_POLICIES = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
_WINDOW_MAX = 3600
_PERIOD_MAX = 1800


def create_autoscaler(autoscaler: autoscaling.HorizontalPodAutoscaler, context: Context) -> Errors:
    yield from metadata(autoscaler.metadata, namespaced=True)
    yield from _spec(autoscaler.spec)


def update_autoscaler(
    autoscaler: autoscaling.HorizontalPodAutoscaler, old: autoscaling.HorizontalPodAutoscaler, context: Context
) -> Errors:
    yield from metadata_update(autoscaler.metadata, old.metadata)
    yield from _spec(autoscaler.spec)


def _spec(spec: autoscaling.HorizontalPodAutoscalerSpec) -> Errors:
    if spec.minReplicas is not None and spec.minReplicas < 1:
        yield invalid(SPEC / "minReplicas", spec.minReplicas, "must be greater than or equal to 1")
    if spec.maxReplicas < 1:
        yield invalid(SPEC / "maxReplicas", spec.maxReplicas, "must be greater than 0")
    if spec.minReplicas is not None and spec.maxReplicas < spec.minReplicas:
        yield invalid(SPEC / "maxReplicas", spec.maxReplicas, "must be greater than or equal to `minReplicas`")
    target = spec.scaleTargetRef
    for field in ("kind", "name"):
        yield from required_name(getattr(target, field), SPEC / "scaleTargetRef" / field, names.path_segment)
    yield from each(spec.metrics, SPEC / "metrics", _metric)
    if spec.behavior is not None:
        for direction in ("scaleUp", "scaleDown"):
            rules = getattr(spec.behavior, direction)
            if rules is not None:
                yield from _rules(rules, SPEC / "behavior" / direction)


def _metric(metric: autoscaling.MetricSpec, path: Path) -> Errors:
    if not metric.type:
        yield required(path / "type", "must specify a metric source type")
    elif metric.type not in _METRICS:
        yield unsupported(path / "type", metric.type, tuple(_METRICS))
    chosen = [field for field in _METRICS.values() if getattr(metric, field) is not None]
    wanted = _METRICS.get(metric.type, "")
    if not chosen:
        yield required(path / (wanted or "type"), "must populate information for the given metric source")
    for field in chosen:
        if wanted and field != wanted:
            yield forbidden(path / field, "must populate the given metric source only")
        else:
            yield from _source(getattr(metric, field), field, path / field)


def _source(source: Any, kind: str, path: Path) -> Errors:
    if kind in ("resource", "containerResource") and not source.name:
        yield required(path / "name", "must specify a resource name")
    if kind == "containerResource" and not source.container:
        yield required(path / "container", "must specify a container")
    if kind in ("object", "pods", "external"):
        yield from required_name(source.metric.name, path / "metric" / "name", names.path_segment)
    target, here = source.target, path / "target"
    if not target.type:
        yield required(here / "type", "must specify a metric target type")
    elif target.type not in _TARGETS:
        yield invalid(here / "type", target.type, "must be either Utilization, Value, or AverageValue")
    if target.averageUtilization is not None and target.averageUtilization < 1:
        yield invalid(here / "averageUtilization", target.averageUtilization, "must be greater than 0")
    for field in ("value", "averageValue"):
        amount = getattr(target, field)
        if amount is not None and Quantity.parse(amount).sign <= 0:
            yield invalid(here / field, amount, "must be positive")


def _rules(rules: autoscaling.HPAScalingRules, path: Path) -> Errors:
    window = rules.stabilizationWindowSeconds
    if window is not None and not 0 <= window <= _WINDOW_MAX:
        bound = "greater than or equal to zero" if window < 0 else f"less than or equal to {_WINDOW_MAX}"
        yield invalid(path / "stabilizationWindowSeconds", window, f"must be {bound}")
    if rules.selectPolicy is not None and rules.selectPolicy not in _SELECT_POLICIES:
        yield unsupported(path / "selectPolicy", rules.selectPolicy, _SELECT_POLICIES)
    if not rules.policies:
        yield required(path / "policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.policies):
        here = path / "policies" / index
        if policy.type not in _POLICIES:
            yield unsupported(here / "type", policy.type, _POLICIES)
        if policy.value <= 0:
            yield invalid(here / "value", policy.value, "must be greater than zero")
        if policy.periodSeconds <= 0:
            yield invalid(here / "periodSeconds", policy.periodSeconds, "must be greater than zero")
        elif policy.periodSeconds > _PERIOD_MAX:
            yield invalid(here / "periodSeconds", policy.periodSeconds, f"must be less than or equal to {_PERIOD_MAX}")
