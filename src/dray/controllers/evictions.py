"""How far evictions have come, for the status of the rules that caused them. Counts of this process, pure state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from dray.api.types.core import Pod
from dray.api.types.meta import Condition

CONDITION = "EvictionInProgress"


class Counts(NamedTuple):
    """Pods that must still leave, the namespaces they are in, and pods that were evicted."""

    left: int
    namespaces: int
    evicted: int


class Evictions:
    """Which pods wait for their eviction, by rule."""

    def __init__(self) -> None:
        self._waiting: dict[str, frozenset[str]] = {}  # pod uid → rules; empty where a slice alone is the reason
        self._left: dict[str, dict[str, str]] = {}  # rule → pod uid → namespace
        self._evicted: dict[str, int] = {}

    def wait(self, pod: Pod, rules: frozenset[str]) -> frozenset[str]:
        """A pod must leave on account of these rules; the rules for which that is news."""
        uid = pod.metadata.uid
        before = self._waiting.get(uid, frozenset())
        for rule in before - rules:
            self._left[rule].pop(uid, None)
        for rule in rules - before:
            self._left.setdefault(rule, {})[uid] = pod.metadata.namespace
        self._waiting[uid] = rules
        return before ^ rules

    def settle(self, pod: Pod) -> frozenset[str] | None:
        """A pod does not wait any more; its rules, or None if it did not wait."""
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

    def counts(self, rule: str) -> Counts:
        left = self._left.get(rule, {})
        return Counts(len(left), len(set(left.values())), self._evicted.get(rule, 0))

    def counted(self, pods: Iterable[Pod]) -> Counts:
        """Pods that would have to leave."""
        found = {pod.metadata.uid: pod.metadata.namespace for pod in pods}
        return Counts(len(found), len(set(found.values())), 0)


def condition(effect: str, counts: Counts, known: Condition | None, now: str) -> dict[str, Any] | None:
    """What a rule should say about evictions; None when it says so already."""
    where = f"in {_number(counts.namespaces, 'namespace')}"
    if effect != "NoExecute":
        state, reason = "False", "NoEffect"
        message = f"{_number(counts.left, 'pod')} would be evicted {where} if the effect was NoExecute."
    elif counts.left:
        state, reason = "True", "PodsPendingEviction"
        verb = "needs" if counts.left == 1 else "need"
        message = f"{_number(counts.left, 'pod')} {verb} to be evicted {where}. {_done(counts)}"
    else:
        state, reason, message = "False", "NoPodsPendingEviction", f"0 pods need to be evicted. {_done(counts)}"
    if known is not None and (known.status, known.reason, known.message) == (state, reason, message):
        return None
    since = known.lastTransitionTime if known is not None and known.status == state else now
    return {"type": CONDITION, "status": state, "reason": reason, "message": message, "lastTransitionTime": since}


def _done(counts: Counts) -> str:
    return f"{_number(counts.evicted, 'pod')} evicted since starting the controller."


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
