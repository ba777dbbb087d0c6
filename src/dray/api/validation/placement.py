"""Validation of pod placement: affinity, tolerations, topology spread and label selectors."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api import names
from dray.api.constraints import checked
from dray.api.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from dray.api.paths import Path
from dray.api.rules import Errors, named
from dray.api.schema import CORE
from dray.api.types import core, meta

MOST_NEIGHBOUR_RULES = 100  # maximum per pod, because the scheduler compares each with every scheduled pod
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SETS = ("In", "NotIn")
_PRESENCE = ("Exists", "DoesNotExist")


def label_selector(selector: meta.LabelSelector | None, path: Path) -> list[FieldError]:
    return checked("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", selector, path) if selector is not None else []


def operator(item: meta.LabelSelectorRequirement, path: Path) -> Errors:
    """Yield errors if the operator of a label selector is unknown, or its values do not fit."""
    if item.operator in _SETS:
        if not item.values:
            yield required(path / "values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif item.operator in _PRESENCE:
        if item.values:
            yield forbidden(path / "values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield invalid(path / "operator", item.operator, "not a valid selector operator")


def neighbours(spec: core.PodSpec, path: Path) -> Errors:
    """Yield errors in topology spread constraints, or if the pod has too many conditions about other pods."""
    spread = list(_spread_constraints(spec.topologySpreadConstraints, path / "topologySpreadConstraints"))
    yield from spread or _neighbour_rules(spec, path)


def _neighbour_rules(spec: core.PodSpec, path: Path) -> Errors:
    """Yield an error if a pod has too many conditions about other pods."""
    terms: list[core.PodAffinityTerm | core.TopologySpreadConstraint] = [*spec.topologySpreadConstraints]
    for rules in (spec.affinity.podAffinity, spec.affinity.podAntiAffinity) if spec.affinity else ():
        if rules is not None:
            terms += rules.requiredDuringSchedulingIgnoredDuringExecution
            terms += [term.podAffinityTerm for term in rules.preferredDuringSchedulingIgnoredDuringExecution]
    if terms and (count := sum(map(_conditions, terms))) > MOST_NEIGHBOUR_RULES:
        text = f"affinity to pods and spreading have {count} conditions, at most {MOST_NEIGHBOUR_RULES} are allowed"
        yield forbidden(path, text)


def _conditions(term: core.PodAffinityTerm | core.TopologySpreadConstraint) -> int:
    selectors = [term.labelSelector, getattr(term, "namespaceSelector", None)]
    said = sum(len(found.matchLabels) + len(found.matchExpressions) for found in selectors if found is not None)
    return max(1, said + len(term.matchLabelKeys) + len(getattr(term, "mismatchLabelKeys", ())))


def toleration(item: core.Toleration, path: Path) -> Errors:
    """Yield errors in a pod's toleration: operator, value and effect."""
    if not item.key and item.operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(path / "operator", item.operator, text)
    if item.tolerationSeconds is not None and item.effect != "NoExecute":
        yield invalid(path / "effect", item.effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if item.operator in ("", "Equal"):
        yield from named(item.value, path / "operator", names.label_value)
    elif item.operator == "Exists":
        if item.value:
            yield invalid(path / "operator", item, "value must be empty when `operator` is 'Exists'")
    else:
        yield unsupported(path / "operator", item.operator, ("Equal", "Exists"))
    if item.effect and item.effect not in TAINT_EFFECTS:
        yield unsupported(path / "effect", item.effect, TAINT_EFFECTS)


def _spread_constraints(items: Sequence[core.TopologySpreadConstraint], path: Path) -> Errors:
    keys = [(item.topologyKey, item.whenUnsatisfiable) for item in items]
    for index, item in enumerate(items):
        yield from checked(f"{CORE}TopologySpreadConstraint", item, path / index)
        if keys[index] in keys[index + 1 :]:
            yield duplicate(path / index / "{topologyKey, whenUnsatisfiable}", f"{{{', '.join(keys[index])}}}")
