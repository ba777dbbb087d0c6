"""Verdict of each node for a pod, computed from API objects with the same rules as the scheduler.

Left out: preferences among fitting nodes, rules of other schedulers, and promises of pods and devices that only the
scheduler's memory contains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.allocator import UNLIMITED, Budget, steps_in
from dray.allocator.budget import StepMeter
from dray.api.claim_access import ClaimUse, PodClaims
from dray.api.gates import GATES, FeatureGates
from dray.api.podclaims import holds_devices
from dray.api.reasons.nodes import NodeVerdict, SchedulingRule
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.core.configuration import Configuration
from dray.core.gang_attempt import GangRefused
from dray.core.model import ClusterModel
from dray.core.objects import StoredObjects
from dray.core.state import ClusterState
from dray.inspect.snapshot import Snapshot
from dray.verdicts.demand import Candidate
from dray.verdicts.rules import Rules

# An API server drops fields whose feature gate is off, so any field present is assumed to be effective.
ALL_GATES = FeatureGates({gate.name: True for gate in GATES})
# Taint rules precede the slices that they change.
_DECIDING: tuple[type[Any], ...] = (Namespace, DeviceTaintRule, DeviceClass, Node, ResourceSlice, ResourceClaim, Pod)
_FOR_NODES = 0.7  # share of the steps for verdicts of nodes; the rest is for analysing the whole cluster
_FOR_TRIAL = 10  # divisor: each tried change gets this fraction of the steps for nodes
_NOTHING_BUT_DEVICES = frozenset(SchedulingRule) - {SchedulingRule.DYNAMIC_RESOURCES}


class Allowance:
    """Steps that an explanation may take: a budget for verdicts of nodes, and a meter for analysing the cluster.

    Counting steps instead of time makes explanations of the same cluster equal on every machine.
    """

    def __init__(self, nodes: Budget = UNLIMITED, cluster: int | None = None) -> None:
        self.nodes = nodes
        self.cluster = StepMeter(cluster)

    @classmethod
    def within(cls, seconds: float) -> Allowance:
        """Create an allowance of about this many seconds.

        The seconds are converted to steps, and are divided between nodes and the cluster.
        """
        nodes = steps_in(seconds * _FOR_NODES)
        return cls(Budget(nodes, nodes), steps_in(seconds * (1 - _FOR_NODES)))

    def trial(self) -> Allowance:
        """Return a smaller allowance for trying one change, which shares the cluster meter.

        Returns the same allowance if nodes are not limited.
        """
        if self.nodes.node is None:
            return self
        steps = max(1, self.nodes.node // _FOR_TRIAL)
        tried = Allowance(Budget(steps, steps))
        tried.cluster = self.cluster
        return tried


def judge(snapshot: Snapshot, pod: Pod, claims: PodClaims, budget: Budget = UNLIMITED) -> list[NodeVerdict]:
    """Return the verdict of every node for a pod with these claims."""
    rules = _rules(snapshot, pod)
    judgement = rules.judge(Candidate(pod), claims, budget, thorough=True)
    return rules.verdicts(judgement)


def gang_refusal(snapshot: Snapshot, pod: Pod, group: PodGroup, *, is_hasty: bool = False) -> GangRefused | None:
    """Return why the gang of a pod cannot be placed as a whole, decided like the scheduler; None if it can.

    With `is_hasty`, the exact search is skipped, so a placement that only this search finds does not count.
    """
    model = model_of(snapshot, group)
    waiting = model.queue.get(pod.metadata.uid)
    gang = model.gangs.begin(waiting) if waiting is not None and model.queue.take(waiting) else None
    if gang is None:
        return None
    gang.is_hasty |= is_hasty
    decision = model.gangs.decide(gang)
    return decision if isinstance(decision, GangRefused) else None


def model_of(snapshot: Snapshot, group: PodGroup | None, more: tuple[type[Any], ...] = ()) -> ClusterModel:
    """Return a scheduler core with the snapshot's objects, for decisions about a pod of this PodGroup or of none."""
    has_policy = group is not None and group.spec.preemptionPolicy is not None
    gates = FeatureGates({**ALL_GATES.chosen, "PodGroupPreemptionPolicy": has_policy})
    model = ClusterModel(gates, Configuration().profiles)
    kinds: tuple[type[Any], ...] = (PodGroup, *_DECIDING, *more)
    for type_ in kinds:
        for one in snapshot.all(type_):
            model.put(one)
    return model


def judge_devices(
    snapshot: Snapshot, pending: Sequence[ResourceClaim], budget: Budget = UNLIMITED
) -> list[NodeVerdict]:
    """Return the verdict of every node for some claims, whichever pod uses them.

    Rules other than those about devices are not applied.
    """
    pod = Pod()
    claims = PodClaims(pod, uses=[ClaimUse(claim, by_group=False) for claim in pending], pending=[*pending])
    rules = _rules(snapshot, pod)
    judgement = rules.judge(Candidate(pod), claims, budget, disabled=_NOTHING_BUT_DEVICES, thorough=True)
    return rules.verdicts(judgement)


def _rules(snapshot: Snapshot, pod: Pod) -> Rules:
    """Return the rules for the state of the cluster without the pod.

    Rules for pods without a node are cached in the snapshot.
    """
    if holds_devices(pod):
        return _made(snapshot, pod.metadata.uid)
    if snapshot.rules is None:
        snapshot.rules = _made(snapshot, "")
    return snapshot.rules


def _made(snapshot: Snapshot, without: str) -> Rules:
    """Create the rules for the snapshot without the pod of this uid."""
    objects = StoredObjects()
    state = ClusterState(objects, ALL_GATES, lambda: 0.0)
    for kind in _DECIDING:
        for one in snapshot.all(kind):
            if one.metadata.uid != without or kind is not Pod:
                objects.put(one)
                state.change(None, one)
    return state.placement.rules
