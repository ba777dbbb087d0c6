"""Warnings about pods that are valid and hardly what their author meant, in Kubernetes' words."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.quantity import Quantity
from dray.api.quoting import quote
from dray.api.types import core

_NO_SELECTOR = "a null labelSelector results in matching no pod"
_BYTES = ("memory", "ephemeral-storage")


def pod_warnings(spec: core.PodSpec, path: str) -> Iterator[str]:
    """Yields the warnings about a pod whose spec stands at `path`."""
    for at, constraint in enumerate(spec.topologySpreadConstraints):
        if constraint.labelSelector is None:
            yield f"{path}.topologySpreadConstraints[{at}].labelSelector: {_NO_SELECTOR}"
    for field in ("initContainers", "containers"):
        for at, container in enumerate(getattr(spec, field)):
            yield from _container(container, f"{path}.{field}[{at}]")
    if (spec.terminationGracePeriodSeconds or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"
    for name in ("podAffinity", "podAntiAffinity"):
        rules = getattr(spec.affinity, name) if spec.affinity is not None else None
        if rules is not None:
            yield from _neighbours(rules, f"{path}.affinity.{name}")


def _container(container: core.Container, path: str) -> Iterator[str]:
    for field in ("limits", "requests"):
        for name, amount in getattr(container.resources, field).items():
            if name in _BYTES and not Quantity.parse(amount).is_whole():
                shown = quote(amount)
                yield f"{path}.resources.{field}[{name}]: fractional byte value {shown} is invalid, must be an integer"
    seen: set[str] = set()
    for at, variable in enumerate(container.env):
        if variable.name in seen:
            hidden = f"hides previous definition of {quote(variable.name)}"
            yield f"{path}.env[{at}]: {hidden}, which may be dropped when using apply"
        seen.add(variable.name)


def _neighbours(rules: core.PodAffinity | core.PodAntiAffinity, path: str) -> Iterator[str]:
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    for at, term in enumerate(rules.requiredDuringSchedulingIgnoredDuringExecution):
        if term.labelSelector is None:
            yield f"{path}.{field}[{at}].labelSelector: {_NO_SELECTOR}"
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    for at, weighted in enumerate(rules.preferredDuringSchedulingIgnoredDuringExecution):
        if weighted.podAffinityTerm.labelSelector is None:
            yield f"{path}.{field}[{at}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"
