"""Progress of the evictions of this process, for the status of the rules that caused them. Pure state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dray.api.types.core import Pod
from dray.api.types.meta import Condition
from dray.api.types.resource import DeviceTaintRule
from dray.controllers.eviction_time import NO_EXECUTE

CONDITION = "EvictionInProgress"
NO_EFFECT = "None"


class EvictionCounts(NamedTuple):
    """Number of pods that must still leave, number of their namespaces, and number of evicted pods."""

    left: int
    namespaces: int
    evicted: int


class TaintedDevices(NamedTuple):
    """Number of published and of allocated devices that a rule selects."""

    published: int = 0
    allocated: int = 0


class Evictions:
    """Tracks by rule which pods wait for their eviction and how many were evicted."""

    def __init__(self) -> None:
        self._waiting: dict[str, frozenset[str]] = {}  # pod uid → rules; empty if only slices are the reason
        self._left: dict[str, dict[str, str]] = {}  # rule → pod uid → namespace
        self._evicted: dict[str, int] = {}

    def wait(self, pod: Pod, rules: frozenset[str]) -> frozenset[str]:
        """Record a pending eviction because of these rules. Returns the rules for which this changed something.

        `rules` are the uids of DeviceTaintRules; they replace those recorded before.
        """
        uid = pod.metadata.uid
        before = self._waiting.get(uid, frozenset())
        for rule in before - rules:
            self._left[rule].pop(uid, None)
        for rule in rules - before:
            self._left.setdefault(rule, {})[uid] = pod.metadata.namespace
        self._waiting[uid] = rules
        return before ^ rules

    def settle(self, pod: Pod) -> frozenset[str] | None:
        """Remove a pod's pending eviction. Returns its rules, or None if no eviction was pending.

        The rules are uids of DeviceTaintRules.
        """
        rules = self._waiting.pop(pod.metadata.uid, None)
        for rule in rules or ():
            self._left.get(rule, {}).pop(pod.metadata.uid, None)
        return rules

    def evicted(self, pod: Pod) -> frozenset[str]:
        rules = self.settle(pod) or frozenset()
        for rule in rules:
            self._evicted[rule] = self._evicted.get(rule, 0) + 1
        return rules

    def forget_rule(self, rule: str) -> None:
        self._evicted.pop(rule, None)
        for uid in self._left.pop(rule, {}):
            self._waiting[uid] -= {rule}

    def counts(self, rule: str) -> EvictionCounts:
        left = self._left.get(rule, {})
        return EvictionCounts(len(left), len(set(left.values())), self._evicted.get(rule, 0))

    def counted(self, pods: Iterable[Pod], rule: str) -> EvictionCounts:
        """Return counts with these pods, which would have to leave, and the number of pods that the rule has evicted.

        `rule` is the uid of a DeviceTaintRule.
        """
        found = {pod.metadata.uid: pod.metadata.namespace for pod in pods}
        return EvictionCounts(len(found), len(set(found.values())), self._evicted.get(rule, 0))


def condition(rule: DeviceTaintRule, counts: EvictionCounts, reach: TaintedDevices, now: str) -> Condition | None:
    """Return the condition that a rule's status should have, or None if its status has that condition already.

    `now` is the API timestamp to write as lastTransitionTime if the condition's status value changes.
    """
    state, reason, message = _verdict(rule.spec.taint.effect, counts, reach)
    if counts.evicted:
        message = f"{message} {_number(counts.evicted, 'pod')} evicted since starting the controller.".lstrip()
    known = next((c for c in rule.status.conditions if c.type == CONDITION), None)
    since = known.lastTransitionTime if known is not None and known.status == state else now
    told = Condition(since, message, rule.metadata.generation, reason, state, CONDITION)
    return None if told == known else told


def _verdict(effect: str, counts: EvictionCounts, reach: TaintedDevices) -> tuple[str, str, str]:
    """Return status, reason and message of the condition, without the number of evicted pods.

    `effect` is that of the rule's taint. The message may be "".
    """
    where = "1 namespace" if counts.namespaces == 1 else f"{counts.namespaces} different namespaces"
    if effect == NO_EFFECT:
        devices = f"{_number(reach.published, 'published device')} selected. "
        devices += f"{_number(reach.allocated, 'allocated device')} selected. "
        pods = f"{_number(counts.left, 'pod')} would be evicted in {where} if the effect was NoExecute. "
        again = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        return "False", "NoEffect", devices + pods + again
    if effect != NO_EXECUTE:
        return "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if counts.left:
        verb = "needs" if counts.left == 1 else "need"
        return "True", "PodsPendingEviction", f"{_number(counts.left, 'pod')} {verb} to be evicted in {where}."
    return "False", "Completed" if counts.evicted else "NotStarted", ""


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
