"""What each node says to a pod, found out from what the API serves, by the composition of rules that the scheduler uses.

Left out: preferences among nodes that fit, rules that a foreign scheduler adds, and what only the scheduler's memory
knows: pods and devices that it has promised and not yet written.
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

# An API server drops fields whose gate is off. So whoever sees a field may take it that somebody acts on it.
ALL_GATES = FeatureGates({gate.name: True for gate in GATES})
# Taint rules come before the slices that they change.
_DECIDING: tuple[type[Any], ...] = (Namespace, DeviceTaintRule, DeviceClass, Node, ResourceSlice, ResourceClaim, Pod)
_FOR_NODES = 0.7  # of the steps are for what nodes say, the rest for what that means for the whole cluster
_FOR_TRIAL = 10  # of what nodes may take, the part that one change may take which is tried
_NOTHING_BUT_DEVICES = frozenset(SchedulingRule) - {SchedulingRule.DYNAMIC_RESOURCES}


class Allowance:
    """Steps that an explanation may take: a budget for the nodes, and a meter for what is said of the whole cluster.

    Steps are no time: the same cluster is explained alike on every machine.
    """

    def __init__(self, nodes: Budget = UNLIMITED, cluster: int | None = None) -> None:
        self.nodes = nodes
        self.cluster = StepMeter(cluster)

    @classmethod
    def within(cls, seconds: float) -> Allowance:
        """What people mean when they give an explanation so many seconds."""
        nodes = steps_in(seconds * _FOR_NODES)
        return cls(Budget(nodes, nodes), steps_in(seconds * (1 - _FOR_NODES)))

    def trial(self) -> Allowance:
        """The same for a change that is tried."""
        if self.nodes.node is None:
            return self
        steps = max(1, self.nodes.node // _FOR_TRIAL)
        tried = Allowance(Budget(steps, steps))
        tried.cluster = self.cluster
        return tried


def judge(snapshot: Snapshot, pod: Pod, claims: PodClaims, budget: Budget = UNLIMITED) -> list[NodeVerdict]:
    """What every node says to a pod with these claims."""
    rules = _rules(snapshot, pod)
    judgement = rules.judge(Candidate(pod), claims, budget, thorough=True)
    return rules.verdicts(judgement)


def gang_refusal(snapshot: Snapshot, pod: Pod, group: PodGroup, *, is_hasty: bool = False) -> GangRefused | None:
    """Why the gang of a pod finds no place as a whole, decided as the scheduler would; None if it finds one.

    `is_hasty`: a place that only the exact search finds does not count.
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
    """A scheduler core that knows the cluster, for a decision about a pod of a group, or about one without a group."""
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
    """What every node says to some claims, whichever pod uses them."""
    pod = Pod()
    claims = PodClaims(pod, uses=[ClaimUse(claim, by_group=False) for claim in pending], pending=[*pending])
    rules = _rules(snapshot, pod)
    judgement = rules.judge(Candidate(pod), claims, budget, disabled=_NOTHING_BUT_DEVICES, thorough=True)
    return rules.verdicts(judgement)


def _rules(snapshot: Snapshot, pod: Pod) -> Rules:
    """The rules, on a picture of the cluster without the pod; those for pods without a node are made once."""
    if holds_devices(pod):
        return _made(snapshot, pod.metadata.uid)
    if snapshot.rules is None:
        snapshot.rules = _made(snapshot, "")
    return snapshot.rules


def _made(snapshot: Snapshot, without: str) -> Rules:
    objects = StoredObjects()
    state = ClusterState(objects, ALL_GATES, lambda: 0.0)
    for kind in _DECIDING:
        for one in snapshot.all(kind):
            if one.metadata.uid != without or kind is not Pod:
                objects.put(one)
                state.change(None, one)
    return state.placement.rules
