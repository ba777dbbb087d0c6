"""ResourceQuota: limits the resource usage of a namespace."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.columns import AGE, NAME, text
from dray.api.errors import invalid, required
from dray.api.kind import STATUS, Resource
from dray.api.paths import Path
from dray.api.quantity import Quantity
from dray.api.resource_names import STANDARD_PREFIXES, STANDARD_RESOURCES, any_resource_name, is_extended
from dray.api.rules import IMMUTABLE, Errors
from dray.api.types import core

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
_INTEGER_QUOTAS = (
    *("pods", "services", "secrets", "configmaps", "resourcequotas", "persistentvolumeclaims"),
    *("replicationcontrollers", "services.nodeports", "services.loadbalancers"),
)


def _amounts(quota: core.ResourceQuota, limits: bool) -> str:
    hard, used = quota.status.hard, quota.status.used
    names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


KIND = Resource(
    core.ResourceQuota,
    short_names=("quota",),
    subresources=STATUS,
    columns=(
        NAME,
        text("Request", lambda quota: _amounts(quota, limits=False)),
        text("Limit", lambda quota: _amounts(quota, limits=True)),
        AGE,
    ),
    is_returned_when_deleted=True,
)


def amounts(spec: core.ResourceQuotaSpec, path: Path) -> Errors:
    """Yield errors in the names and amounts of the resources that a quota limits."""
    for name, amount in spec.hard.items():
        here = path / "hard" % name
        yield from any_resource_name(name, here)
        is_standard = name in STANDARD_RESOURCES or name.startswith(STANDARD_PREFIXES)
        if "/" not in name and (name == "storage" or not is_standard):
            yield invalid(here, name, "must be a standard resource for quota")
        quantity = Quantity.parse(amount)
        if quantity.sign < 0:
            yield invalid(here, amount, "must be greater than or equal to 0")
        if (name in _INTEGER_QUOTAS or is_extended(name)) and not quantity.is_whole():
            yield invalid(here, amount, "must be an integer")


def scopes(spec: core.ResourceQuotaSpec, path: Path) -> Errors:
    """Yield errors in the scopes of a quota: unknown, conflicting, or not applicable to a limited resource."""
    here, shown = path / "scopes", list(spec.scopes)
    for scope in spec.scopes:
        if scope not in _SCOPES:
            yield invalid(here, shown, "unsupported scope")
        for name in sorted(spec.hard):
            if name in _STANDARD and not _is_countable(scope, name):
                yield invalid(here, shown, "unsupported scope applied to resource")
    for pair in _CONFLICTS:
        if pair <= set(spec.scopes):
            yield invalid(here, shown, "conflicting scopes")
    if spec.scopeSelector is not None:
        for requirement in spec.scopeSelector.matchExpressions:
            yield from _requirement(requirement, spec, path / "scopeSelector" / "matchExpressions")


def same_scopes(now: Sequence[str], before: Sequence[str], path: Path) -> Errors:
    """Yield an error if an update changes the set of scopes; order and duplicates are ignored."""
    if set(now) != set(before):
        yield invalid(path, now or None, IMMUTABLE)


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
