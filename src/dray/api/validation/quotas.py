"""Scopes of a ResourceQuota: which pods it counts, and whether that can be said of what it limits."""

from __future__ import annotations

from dray.api.errors import invalid, required
from dray.api.paths import SPEC, Path
from dray.api.types import core
from dray.api.validation.lists import Errors

_BY_PRESENCE = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")
_SCOPES = frozenset({*_BY_PRESENCE, "PriorityClass", "VolumeAttributesClass"})
_COMPUTE = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
_STORAGE = ("persistentvolumeclaims", "requests.storage")
_STANDARD = frozenset({"pods", *_COMPUTE, *_STORAGE, "services", "replicationcontrollers", "resourcequotas", "secrets"})
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_ONLY_EXISTS = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def quota_scopes(spec: core.ResourceQuotaSpec) -> Errors:
    path, shown = SPEC / "scopes", list(spec.scopes)
    for scope in spec.scopes:
        if scope not in _SCOPES:
            yield invalid(path, shown, "unsupported scope")
        for name in sorted(spec.hard):
            if name in _STANDARD and not _is_countable(scope, name):
                yield invalid(path, shown, "unsupported scope applied to resource")
    for pair in _CONFLICTS:
        if pair <= set(spec.scopes):
            yield invalid(path, shown, "conflicting scopes")
    if spec.scopeSelector is not None:
        for requirement in spec.scopeSelector.matchExpressions:
            yield from _requirement(requirement, spec, SPEC / "scopeSelector" / "matchExpressions")


def _is_countable(scope: str, name: str) -> bool:
    if scope == "BestEffort":
        return name == "pods"
    return name in _STORAGE if scope == "VolumeAttributesClass" else name == "pods" or name in _COMPUTE


def _requirement(
    requirement: core.ScopedResourceSelectorRequirement, spec: core.ResourceQuotaSpec, path: Path
) -> Errors:
    scope, operator, values = requirement.scopeName, requirement.operator, list(requirement.values)
    if scope not in _SCOPES:
        yield invalid(path / "scopeName", scope, "unsupported scope")
    for name in sorted(spec.hard):
        if name in _STANDARD and not _is_countable(scope, name):
            yield invalid(path, scope, "unsupported scope applied to resource")
    if scope in _BY_PRESENCE and operator != "Exists":
        yield invalid(path / "operator", operator, _ONLY_EXISTS)
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(path / "values", text)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield invalid(path / "values", values, text)
    else:
        yield invalid(path / "operator", operator, "not a valid selector operator")
