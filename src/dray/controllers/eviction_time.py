"""When the pods of a claim must leave because a device of it is tainted NoExecute. Pure.

Each taint of each device of an allocation counts: one that is not tolerated is due when it was added, one that is
tolerated for some seconds is due after them, one that is tolerated without limit never. The earliest decides. Left out:
finding the taints and the pods (`taints`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dray.api.selectors import tolerates_device
from dray.api.times import parse_timestamp
from dray.api.types.resource import DeviceRequestAllocationResult, DeviceTaint, DeviceToleration

NO_EXECUTE = "NoExecute"


class Tainted(NamedTuple):
    """A taint on a device, and the uid of the rule that it comes from; empty for one in a slice."""

    taint: DeviceTaint
    rule: str = ""


class EvictionTime(NamedTuple):
    """When the taint came and when to leave, in seconds since 1970, why, and the uids of all rules with a part in it."""

    since: float
    due: float
    why: str
    rules: frozenset[str] = frozenset()

    def joined(self, other: EvictionTime | None) -> EvictionTime:
        """Both: the earlier one decides."""
        if other is None:
            return self
        first = min(self, other, key=lambda when: when.due)
        return first._replace(rules=self.rules | other.rules)


def eviction_time_of(result: DeviceRequestAllocationResult, taints: Iterable[Tainted]) -> EvictionTime | None:
    """What one allocated device means for the pods that use it."""
    found: EvictionTime | None = None
    for taint, rule in taints:
        seconds = seconds_tolerated(result.tolerations, taint)
        if taint.effect == NO_EXECUTE and seconds is not None:
            since = parse_timestamp(taint.timeAdded) if taint.timeAdded else 0.0
            shown = f"{taint.key}={taint.value}" if taint.value else taint.key
            why = f"device {result.driver}/{result.pool}/{result.device} has taint {shown}:{taint.effect}"
            found = EvictionTime(since, since + seconds, why, frozenset({rule} if rule else ())).joined(found)
    return found


def seconds_tolerated(tolerations: Iterable[DeviceToleration], taint: DeviceTaint) -> float | None:
    """For how many seconds a taint is put up with; None means for ever. The strictest of several tolerations holds."""
    matching = [t.tolerationSeconds for t in tolerations if tolerates_device(t, taint)]
    if None in matching:
        return None
    return float(max(0, min((seconds for seconds in matching if seconds is not None), default=0)))
