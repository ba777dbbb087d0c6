"""Computes when the pods of a claim must leave because a device of the claim is tainted NoExecute. Pure.

Each taint of each allocated device counts. An untolerated taint is due when it was added, a taint tolerated for some
seconds is due after them, and a taint tolerated without limit is never due. The earliest time decides. Left out:
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
    """A taint on a device, and the uid of the DeviceTaintRule that it comes from ("" for a taint in a slice)."""

    taint: DeviceTaint
    rule: str = ""


class EvictionTime(NamedTuple):
    """When the taint was added, when the pods must leave (seconds since 1970), why, and the uids of the rules.

    `since` and `due` are in seconds since 1970; `rules` is empty if all taints are in slices.
    """

    since: float
    due: float
    why: str
    rules: frozenset[str] = frozenset()

    def joined(self, other: EvictionTime | None) -> EvictionTime:
        """Return the earlier of two eviction times, with the rules of both.

        Returns this one if `other` is None.
        """
        if other is None:
            return self
        first = min(self, other, key=lambda when: when.due)
        return first._replace(rules=self.rules | other.rules)


def eviction_time_of(result: DeviceRequestAllocationResult, taints: Iterable[Tainted]) -> EvictionTime | None:
    """Return when pods that use an allocated device must leave because of its taints, or None if they may stay.

    Only NoExecute taints count. Each taint comes with the uid of its DeviceTaintRule, which is empty if a slice has
    the taint.
    """
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
    """Return for how many seconds a taint is tolerated: 0 if no toleration matches, None for ever.

    Without a time limit, one matching toleration suffices for ever. Otherwise the shortest limit counts.
    """
    matching = [t.tolerationSeconds for t in tolerations if tolerates_device(t, taint)]
    if None in matching:
        return None
    return float(max(0, min((seconds for seconds in matching if seconds is not None), default=0)))
