"""Warnings about valid pods and volume claims that are probably mistakes, with the messages of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dray.api.quantity import Quantity
from dray.api.quoting import quote
from dray.api.types import core

_NO_SELECTOR = "a null labelSelector results in matching no pod"
_BYTES = ("memory", "ephemeral-storage")


def pod_warnings(spec: core.PodSpec, path: str) -> Iterator[str]:
    """Yield the warnings about a pod spec; `path` is the path of the spec."""
    for at, volume in enumerate(spec.volumes):
        if volume.ephemeral is not None and volume.ephemeral.volumeClaimTemplate is not None:
            claim = volume.ephemeral.volumeClaimTemplate.spec
            yield from claim_warnings(claim, f"{path}.volumes[{at}].ephemeral.volumeClaimTemplate.spec")
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


def claim_warnings(spec: core.PersistentVolumeClaimSpec, path: str) -> Iterator[str]:
    """Yield the warnings about the spec of a volume claim; `path` is the path of the spec."""
    for field in ("requests", "limits"):
        yield from fractional(getattr(spec.resources, field), ("storage",), f"{path}.resources.{field}")


def fractional(amounts: Mapping[str, str], names: Sequence[str], path: str) -> Iterator[str]:
    """Yield a warning for each of the named amounts that is not a whole number of bytes.

    `path` is the path of `amounts`. Names that are not in `amounts` are ignored.
    """
    for name in names:
        # Kubernetes computes thousandths in 64 bits, which overflow for large amounts.
        if name in amounts and (Quantity.parse(amounts[name]).milli() + 2**63) % 2**64 % 1000 != 2**63 % 1000:
            text = f"fractional byte value {quote(amounts[name])} is invalid, must be an integer"
            yield f"{path}[{name}]: {text}"


def _container(container: core.Container, path: str) -> Iterator[str]:
    for name in _BYTES:
        for field in ("limits", "requests"):
            yield from fractional(getattr(container.resources, field), (name,), f"{path}.resources.{field}")
    seen: set[str] = set()
    for at, variable in enumerate(container.env):
        reference = f"$({variable.name})"
        extends = reference in variable.value and variable.value != reference and variable.valueFrom is None
        if variable.name in seen and not extends:
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
