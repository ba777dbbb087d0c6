"""What each node says to a pod, found out from what the API serves, by the composition of rules that the scheduler uses.

Left out: preferences among nodes that fit, rules that a foreign scheduler adds, and what only the scheduler's memory
knows: pods and devices that it has promised and not yet written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from dray.api.claim_access import ClaimUse, PodClaims
from dray.api.gates import GATES, FeatureGates
from dray.api.podclaims import holds_devices
from dray.api.reasons.nodes import NodeVerdict, SchedulingRule
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.core.objects import StoredObjects
from dray.core.state import ClusterState
from dray.inspect.snapshot import Snapshot
from dray.verdicts.demand import Candidate
from dray.verdicts.rules import Rules

# An API server drops fields whose gate is off. So whoever sees a field may take it that somebody acts on it.
ALL_GATES = FeatureGates({gate.name: True for gate in GATES})
# Taint rules come before the slices that they change.
_DECIDING: tuple[type[Any], ...] = (Namespace, DeviceTaintRule, DeviceClass, Node, ResourceSlice, ResourceClaim, Pod)
_FOR_NODES = 0.7  # of the time goes into what nodes say, the rest into what that means for the whole cluster
_NOTHING_BUT_DEVICES = frozenset(SchedulingRule) - {SchedulingRule.DYNAMIC_RESOURCES}


class Deadlines(NamedTuple):
    """Until when an explanation may work on its parts, in terms of `time.monotonic()`; None for no limit."""

    nodes: float | None = None
    cluster: float | None = None

    @classmethod
    def within(cls, seconds: float) -> Deadlines:
        now = time.monotonic()
        return cls(now + seconds * _FOR_NODES, now + seconds)


def judge(snapshot: Snapshot, pod: Pod, claims: PodClaims, deadline: float | None) -> list[NodeVerdict]:
    """What every node says to a pod with these claims."""
    rules = _rules(snapshot, pod)
    judgement = rules.judge(Candidate(pod), claims, deadline, thorough=True)
    return rules.verdicts(judgement, deadline)


def judge_devices(snapshot: Snapshot, pending: Sequence[ResourceClaim], deadline: float | None) -> list[NodeVerdict]:
    """What every node says to some claims, whichever pod uses them."""
    pod = Pod()
    claims = PodClaims(pod, uses=[ClaimUse(claim, by_group=False) for claim in pending], pending=[*pending])
    rules = _rules(snapshot, pod)
    judgement = rules.judge(Candidate(pod), claims, deadline, disabled=_NOTHING_BUT_DEVICES, thorough=True)
    return rules.verdicts(judgement, deadline)


def _rules(snapshot: Snapshot, pod: Pod) -> Rules:
    """The rules, on a picture of the cluster without the pod; those for pods without a node are made once."""
    if holds_devices(pod):
        return _made(snapshot, pod.metadata.uid)
    if snapshot.rules is None:
        snapshot.rules = _made(snapshot, "")
    return snapshot.rules


def _made(snapshot: Snapshot, without: str) -> Rules:
    objects = StoredObjects()
    state = ClusterState(objects, ALL_GATES, time.monotonic)
    for kind in _DECIDING:
        for one in snapshot.all(kind):
            if one.metadata.uid != without or kind is not Pod:
                objects.put(one)
                state.change(None, one)
    return state.placement.rules
