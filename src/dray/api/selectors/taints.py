"""Tolerations: decide which taints of nodes and devices a pod or request tolerates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.api.types import core, resource


def tolerates(toleration: core.Toleration, taint: core.Taint) -> bool:
    """Return whether a pod's toleration matches a node taint, regardless of tolerationSeconds.

    An empty key or effect matches any. An unknown operator matches nothing.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt":
            return _compares(toleration.operator, toleration.value, taint.value)
    return False


def tolerates_device(toleration: resource.DeviceToleration, taint: resource.DeviceTaint) -> bool:
    """Return whether a request's toleration matches a device taint.

    An empty key or effect matches any. An unknown operator matches nothing.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def untolerated(
    taints: Iterable[core.Taint],
    tolerations: tuple[core.Toleration, ...],
    effects: tuple[str, ...] = ("NoSchedule", "NoExecute"),
) -> Iterator[core.Taint]:
    """Yield the taints with one of these effects that no toleration matches."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            yield taint


def _compares(operator: str, bound: str, value: str) -> bool:
    """Return whether the taint's `value` is greater (Gt) or less (Lt) than the integer `bound`.

    Returns False if one of the two texts is not an integer.
    """
    try:
        return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
    except ValueError:
        return False
