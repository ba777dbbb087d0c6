"""HorizontalPodAutoscaler: changes the number of pods with their load. Version v1 supports only CPU metrics.

Stored only; dray does not act on it.
"""

from __future__ import annotations

from dray.api.cells import NONE, UNSET
from dray.api.columns import AGE, NAME, number, text
from dray.api.conversion import WorkloadLookup
from dray.api.kind import ALL, STATUS, Resource
from dray.api.trees import fill, lend, tree_of
from dray.api.types import autoscaling
from dray.api.wire import Tree, Wire


def _metric(metric: autoscaling.MetricSpec) -> str:
    """Return the target of a metric; the current value is always unknown."""
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
