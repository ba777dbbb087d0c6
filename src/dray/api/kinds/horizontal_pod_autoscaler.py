"""HorizontalPodAutoscaler: changes the number of pods with their load. Version v1 supports only CPU metrics.

Stored only; dray does not act on it.
"""

from __future__ import annotations

from dray.api.cells import NONE, UNSET
from dray.api.columns import AGE, NAME, number, text
from dray.api.conversion import WorkloadLookup
from dray.api.errors import forbidden, invalid, required, unsupported
from dray.api.kind import ALL, STATUS, Resource
from dray.api.paths import Path
from dray.api.rules import Errors, checked
from dray.api.trees import fill, lend, tree_of
from dray.api.types import autoscaling
from dray.api.wire import Tree, Wire

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


def _metric(metric: autoscaling.MetricSpec) -> str:
    """Return the target of a metric for a table, such as `cpu: <unknown>/80%`; the current value is always unknown.

    Returns `<unknown type>` if the metric has no source.
    """
    source = metric.resource or metric.containerResource or metric.pods or metric.object or metric.external
    if source is None:
        return "<unknown type>"
    target = source.target
    if target.averageUtilization is not None:
        name = f"{getattr(source, 'name', '')}: " if metric.resource or metric.containerResource else ""
        return f"{name}<unknown>/{target.averageUtilization}%"
    return f"<unknown>/{target.averageValue or target.value}"


_CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
_DOUBLE = {"type": "Percent", "value": 100, "periodSeconds": 15}
_FOUR_MORE = {"type": "Pods", "value": 4, "periodSeconds": 15}


def _defaults(tree: Tree) -> None:
    spec = tree["spec"]
    fill(spec, "metrics", [_CPU])
    behavior = spec.get("behavior")
    if behavior is not None:
        behavior.setdefault("scaleUp", {}).setdefault("stabilizationWindowSeconds", 0)
        for direction, policies in (("scaleUp", [_FOUR_MORE, _DOUBLE]), ("scaleDown", [_DOUBLE])):
            rules = behavior.setdefault(direction, {})
            rules.setdefault("selectPolicy", "Max")
            fill(rules, "policies", policies)


def _is_processor(metric: Tree) -> bool:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return resource.get("name") == "cpu" and target.get("averageUtilization") is not None


def _to_stored(tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    before = tree_of(old)
    spec, old_spec = tree.setdefault("spec", {}), before.get("spec") or {}
    wanted = spec.pop("targetCPUUtilizationPercentage", None)
    others = [metric for metric in old_spec.get("metrics") or () if not _is_processor(metric)]
    if wanted is not None:
        target = {"type": "Utilization", "averageUtilization": wanted}
        others.insert(0, {"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if others:
        spec["metrics"] = others
    lend(spec, old_spec, ("behavior",))
    status = tree.get("status")
    if status is not None:
        status.pop("currentCPUUtilizationPercentage", None)
        lend(status, before.get("status") or {}, ("currentMetrics", "conditions"))


def _from_stored(tree: Tree) -> None:
    spec, status = tree.get("spec", {}), tree.get("status", {})
    spec.pop("behavior", None)
    for metric in filter(_is_processor, spec.pop("metrics", None) or ()):
        spec["targetCPUUtilizationPercentage"] = metric["resource"]["target"]["averageUtilization"]
    for metric in status.pop("currentMetrics", None) or ():
        found = metric.get("resource") or {}
        if found.get("name") == "cpu" and "averageUtilization" in (found.get("current") or {}):
            status["currentCPUUtilizationPercentage"] = found["current"]["averageUtilization"]
    status.pop("conditions", None)
    status.setdefault("currentReplicas", 0)


KIND = Resource(
    autoscaling.HorizontalPodAutoscaler,
    versions=("v2", "v1"),
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
    generation=("spec",),
    status_writes_metadata=True,
    defaults={"spec.minReplicas": 1},
    more_defaults=_defaults,
    to_stored={"v1": _to_stored},
    from_stored={"v1": _from_stored},
)


def bounds(spec: autoscaling.HorizontalPodAutoscalerSpec, path: Path) -> Errors:
    """Yield an error if maxReplicas is less than minReplicas; nothing without minReplicas."""
    if spec.minReplicas is not None and spec.maxReplicas < spec.minReplicas:
        yield invalid(path / "maxReplicas", spec.maxReplicas, "must be greater than or equal to `minReplicas`")


def api_version(target: autoscaling.CrossVersionObjectReference, path: Path) -> Errors:
    """Yield an error if the apiVersion of the scale target is malformed or lacks a group. `v1` needs no group."""
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
    """Yield errors if a metric of this kind does not have the required target fields.

    `kind` is the name of the field with the source, such as `resource` or `pods`.
    """
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
