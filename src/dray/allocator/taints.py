"""Which taints keep a device from being allocated. Left out: where taints come from; callers merge DeviceTaintRules."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.types.resource import DeviceTaint, DeviceToleration

FORBIDDING = frozenset({"NoSchedule", "NoExecute"})  # any other effect, None included, only informs


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether one toleration covers one taint; what it leaves empty covers everything."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def intolerable(taints: Iterable[DeviceTaint], tolerations: Iterable[DeviceToleration]) -> list[DeviceTaint]:
    """The taints that forbid allocation in spite of the tolerations."""
    tolerations = tuple(tolerations)
    return [
        taint
        for taint in taints
        if taint.effect in FORBIDDING and not any(tolerates(toleration, taint) for toleration in tolerations)
    ]
