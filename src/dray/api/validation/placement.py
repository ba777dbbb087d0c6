"""Where pods may go: affinity, tolerations, spreading, and label selectors, which all of them use."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api import names
from dray.api.constraints import checked
from dray.api.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from dray.api.paths import Path
from dray.api.schema import CORE
from dray.api.types import core, meta
from dray.api.validation.lists import Errors, each, named, required_name
from dray.api.validation.nodes import node_selector, node_selector_term

MOST_NEIGHBOUR_RULES = 100  # of a pod; the scheduler compares each with every pod that is placed
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SETS = ("In", "NotIn")
_PRESENCE = ("Exists", "DoesNotExist")


def label_selector(selector: meta.LabelSelector | None, path: Path) -> list[FieldError]:
    return checked("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", selector, path) if selector is not None else []


def operator(item: meta.LabelSelectorRequirement, path: Path) -> Errors:
    if item.operator in _SETS:
        if not item.values:
            yield required(path / "values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif item.operator in _PRESENCE:
        if item.values:
            yield forbidden(path / "values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield invalid(path / "operator", item.operator, "not a valid selector operator")


def affinity(value: core.Affinity, path: Path) -> Errors:
    if value.nodeAffinity is not None:
        here = path / "nodeAffinity"
        wanted = value.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        if wanted is not None:
            yield from node_selector(wanted, here / "requiredDuringSchedulingIgnoredDuringExecution")
        field = "preferredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(value.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution):
            yield from _weight(term.weight, here / field / index / "weight")
            yield from node_selector_term(term.preference, here / field / index / "preference")
    for name in ("podAffinity", "podAntiAffinity"):
        rules = getattr(value, name)
        if rules is not None:
            yield from _pod_affinity(rules, path / name)


def _pod_affinity(rules: core.PodAffinity | core.PodAntiAffinity, path: Path) -> Errors:
    yield from each(
        rules.requiredDuringSchedulingIgnoredDuringExecution,
        path / "requiredDuringSchedulingIgnoredDuringExecution",
        _affinity_term,
    )
    for index, term in enumerate(rules.preferredDuringSchedulingIgnoredDuringExecution):
        here = path / "preferredDuringSchedulingIgnoredDuringExecution" / index
        yield from _weight(term.weight, here / "weight")
        yield from _affinity_term(term.podAffinityTerm, here / "podAffinityTerm")


def _affinity_term(term: core.PodAffinityTerm, path: Path) -> Errors:
    yield from label_selector(term.labelSelector, path / "labelSelector")
    yield from label_selector(term.namespaceSelector, path / "namespaceSelector")
    for index, name in enumerate(term.namespaces):
        yield from named(name, path / "namespaces" / index, names.label)
    yield from required_name(term.topologyKey, path / "topologyKey", names.qualified_name, "can not be empty")


def neighbour_rules(spec: core.PodSpec, path: Path) -> Errors:
    """How much a pod says about other pods."""
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


def _weight(weight: int, path: Path) -> Errors:
    if not 1 <= weight <= 100:
        yield invalid(path, weight, "must be in the range 1-100")


def toleration(item: core.Toleration, path: Path) -> Errors:
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


def spread_constraint(item: core.TopologySpreadConstraint, path: Path) -> Errors:
    yield from checked(f"{CORE}TopologySpreadConstraint", item, path)
    yield from label_selector(item.labelSelector, path / "labelSelector")


def spread_constraints(items: Sequence[core.TopologySpreadConstraint], path: Path) -> Errors:
    keys = [(item.topologyKey, item.whenUnsatisfiable) for item in items]
    for index, item in enumerate(items):
        yield from spread_constraint(item, path / index)
        if keys[index] in keys[index + 1 :]:
            yield duplicate(path / index / "{topologyKey, whenUnsatisfiable}", f"{{{', '.join(keys[index])}}}")
