"""Which taints keep a device from being allocated. Left out: where taints come from; callers merge DeviceTaintRules."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.selectors import tolerates_device
from dray.api.types.resource import DeviceTaint, DeviceToleration

FORBIDDING = frozenset({"NoSchedule", "NoExecute"})  # any other effect, None included, only informs


def intolerable(taints: Iterable[DeviceTaint], tolerations: Iterable[DeviceToleration]) -> list[DeviceTaint]:
    """The taints that forbid allocation in spite of the tolerations."""
    tolerations = tuple(tolerations)
    return [
        taint
        for taint in taints
        if taint.effect in FORBIDDING and not any(tolerates_device(toleration, taint) for toleration in tolerations)
    ]
