"""Sets of pods with an identity, and budgets for disrupting pods."""

from __future__ import annotations

from dray.api.constraints import checked
from dray.api.errors import invalid
from dray.api.paths import SPEC, STATUS, Path
from dray.api.schema import APPS
from dray.api.types import apps, core, policy
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, at_least, unchanged
from dray.api.validation.workloads import scaled, selected_template
from dray.api.written import as_go

_IMMUTABLE = ("serviceName", "podManagementPolicy", "selector", "volumeClaimTemplates")
_PARTS_OF_REPLICAS = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


# StatefulSet


def create_stateful_set(stateful_set: apps.StatefulSet, context: Context) -> Errors:
    spec = stateful_set.spec
    if spec.podManagementPolicy not in ("OrderedReady", "Parallel"):
        yield invalid(SPEC / "podManagementPolicy", spec.podManagementPolicy, "must be 'OrderedReady' or 'Parallel'")
    yield from _update_strategy(spec.updateStrategy, SPEC / "updateStrategy")
    yield from checked(f"{APPS}StatefulSetSpec", spec, SPEC)
    claimed = tuple(core.Volume(name=claim.metadata.name) for claim in spec.volumeClaimTemplates)
    yield from selected_template(spec.selector, spec.template, "statefulset", ("Always",), claimed)


def update_stateful_set(stateful_set: apps.StatefulSet, old: apps.StatefulSet, context: Context) -> Errors:
    yield from create_stateful_set(stateful_set, context)
    for field in _IMMUTABLE:
        now = getattr(stateful_set.spec, field)
        yield from unchanged(now, getattr(old.spec, field), SPEC / field, now)


def update_stateful_set_status(stateful_set: apps.StatefulSet, old: apps.StatefulSet, context: Context) -> Errors:
    status = stateful_set.status
    yield from checked(f"{APPS}StatefulSetStatus", status, STATUS)
    for field in _PARTS_OF_REPLICAS:
        if getattr(status, field) > status.replicas:
            yield invalid(STATUS / field, getattr(status, field), "cannot be greater than status.replicas")
    if status.availableReplicas > status.readyReplicas:
        text = "cannot be greater than status.readyReplicas"
        yield invalid(STATUS / "availableReplicas", status.availableReplicas, text)
    if (status.collisionCount or 0) < (old.status.collisionCount or 0):
        yield invalid(STATUS / "collisionCount", status.collisionCount or 0, "cannot be decremented")


def _update_strategy(strategy: apps.StatefulSetUpdateStrategy, path: Path) -> Errors:
    update = strategy.rollingUpdate
    if strategy.type == "OnDelete":
        if update is not None:
            yield invalid(path / "rollingUpdate", update, "only allowed for updateStrategy 'RollingUpdate'")
    elif strategy.type != "RollingUpdate":
        yield invalid(path, as_go(strategy), "must be 'RollingUpdate' or 'OnDelete'")
    elif update is not None:
        yield from at_least(update.partition, 0, path / "rollingUpdate" / "partition")
        here = path / "rollingUpdate" / "maxUnavailable"
        yield from scaled(update.maxUnavailable, here)
        if update.maxUnavailable in (0, "0%"):
            yield invalid(here, update.maxUnavailable, "cannot be 0")


# PodDisruptionBudget


def budget_bounds(spec: policy.PodDisruptionBudgetSpec, path: Path) -> Errors:
    if spec.minAvailable is not None and spec.maxUnavailable is not None:
        yield invalid(path, spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        value = getattr(spec, field)
        faults = list(scaled(value, path / field))
        yield from faults
        if not faults and isinstance(value, str) and int(value[:-1]) > 100:
            yield invalid(path / field, value, "must not be greater than 100%")
