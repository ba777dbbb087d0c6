"""Decides which taints prevent the allocation of a device. Callers add the taints of DeviceTaintRules to devices
before.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.selectors import tolerates_device
from dray.api.types.resource import DeviceTaint, DeviceToleration

FORBIDDING = frozenset({"NoSchedule", "NoExecute"})  # other effects, such as None, only inform


def intolerable(taints: Iterable[DeviceTaint], tolerations: Iterable[DeviceToleration]) -> list[DeviceTaint]:
    """Return the taints that forbid allocation and are not tolerated, empty if the device can be allocated."""
    tolerations = tuple(tolerations)
    return [
        taint
        for taint in taints
        if taint.effect in FORBIDDING and not any(tolerates_device(toleration, taint) for toleration in tolerations)
    ]
