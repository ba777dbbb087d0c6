"""What each node says to a pod, found out from what the API serves, by the composition of rules that the scheduler uses.

Left out: preferences among nodes that fit, rules that a foreign scheduler adds, and what only the scheduler's memory
knows: pods and devices that it has promised and not yet written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from dray.allocator import Features, Index
from dray.api.allocations import taken_by_all
from dray.api.claim_access import ClaimUse, PodClaims
from dray.api.podclaims import holds_devices
from dray.api.reasons.nodes import NodeVerdict, SchedulingRule
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.inspect.snapshot import Snapshot
from dray.verdicts.demand import Candidate
from dray.verdicts.devices import DeviceRule
from dray.verdicts.neighbours import Neighbours
from dray.verdicts.nodes import NodeTable
from dray.verdicts.rules import Rules

# An API server drops fields whose gate is off. So whoever sees a field may take it that somebody acts on it.
WITH_ALL_GATES = Features(**dict.fromkeys(Features.__struct_fields__, True))
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
    index, table = Index(WITH_ALL_GATES), NodeTable()
    devices = DeviceRule(index, table)
    for class_ in snapshot.classes.values():
        devices.upsert_class(class_)
    for one in snapshot.slices:
        index.upsert_slice(one)
    for node in snapshot.all(Node):
        index.upsert_node(node)
        table.upsert(node, index.number(node.metadata.name))
    taken = taken_by_all(snapshot.all(ResourceClaim))
    index.take(taken.devices, taken.shares)
    for placed in snapshot.all(Pod):
        if holds_devices(placed) and placed.metadata.uid != without:
            table.place(placed, placed.spec.nodeName)
    labels = {one.metadata.name: one.metadata.labels for one in snapshot.all(Namespace)}
    neighbours = Neighbours(table, lambda name: labels.get(name, {}))
    return Rules(table, neighbours, devices)
