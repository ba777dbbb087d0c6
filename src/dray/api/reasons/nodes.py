"""What a scheduling rule says of a node, as data: a code, what it is about, and the numbers behind it.

The scheduler counts these reasons, explain lists them for each node. Left out: the rules (`dray.verdicts`), words
(`wording`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.devices import InputProblem, Reasons, TimedOut
from dray.api.reasons.groups import GroupProblem


class SchedulingRule(StrEnum):
    """A scheduling rule, by the name of Kubernetes' plugin."""

    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_NAME = "NodeName"
    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    NODE_PORTS = "NodePorts"
    NODE_RESOURCES_FIT = "NodeResourcesFit"
    INTER_POD_AFFINITY = "InterPodAffinity"
    POD_TOPOLOGY_SPREAD = "PodTopologySpread"
    DYNAMIC_RESOURCES = "DynamicResources"


class NodeCode(StrEnum):
    """Why a rule refuses a node, in the order in which the rules are asked."""

    UNSCHEDULABLE = "unschedulable"
    OTHER_NAME = "other-name"
    TAINT = "taint"
    NODE_AFFINITY = "node-affinity"
    PORTS = "ports"
    TOO_MANY_PODS = "too-many-pods"
    INSUFFICIENT = "insufficient"
    POD_AFFINITY = "pod-affinity"
    POD_ANTI_AFFINITY = "pod-anti-affinity"
    EXISTING_ANTI_AFFINITY = "existing-anti-affinity"
    SPREAD_LABEL = "spread-label"
    SPREAD = "spread"
    CLAIM_ELSEWHERE = "claim-elsewhere"
    CLAIM_LOST = "claim-lost"
    NODE_CLAIM_SHARED = "node-claim-shared"
    EXTENDED_LEFT_OVER = "extended-left-over"
    EXTENDED_UNKNOWN = "extended-unknown"
    CANNOT_ALLOCATE = "cannot-allocate"
    DEVICES_TIMED_OUT = "devices-timed-out"
    DEVICES_WRONG = "devices-wrong"
    DEVICES_INSUFFICIENT = "devices-insufficient"
    LACKS_FEATURE = "lacks-feature"
    POD_REQUEST_SHORT = "pod-request-short"


RULE_OF: Mapping[NodeCode, SchedulingRule] = {
    NodeCode.UNSCHEDULABLE: SchedulingRule.NODE_UNSCHEDULABLE,
    NodeCode.OTHER_NAME: SchedulingRule.NODE_NAME,
    NodeCode.TAINT: SchedulingRule.TAINT_TOLERATION,
    NodeCode.NODE_AFFINITY: SchedulingRule.NODE_AFFINITY,
    NodeCode.PORTS: SchedulingRule.NODE_PORTS,
    NodeCode.TOO_MANY_PODS: SchedulingRule.NODE_RESOURCES_FIT,
    NodeCode.INSUFFICIENT: SchedulingRule.NODE_RESOURCES_FIT,
    NodeCode.POD_AFFINITY: SchedulingRule.INTER_POD_AFFINITY,
    NodeCode.POD_ANTI_AFFINITY: SchedulingRule.INTER_POD_AFFINITY,
    NodeCode.EXISTING_ANTI_AFFINITY: SchedulingRule.INTER_POD_AFFINITY,
    NodeCode.SPREAD_LABEL: SchedulingRule.POD_TOPOLOGY_SPREAD,
    NodeCode.SPREAD: SchedulingRule.POD_TOPOLOGY_SPREAD,
    NodeCode.CLAIM_ELSEWHERE: SchedulingRule.DYNAMIC_RESOURCES,
    NodeCode.CLAIM_LOST: SchedulingRule.DYNAMIC_RESOURCES,
    NodeCode.EXTENDED_LEFT_OVER: SchedulingRule.DYNAMIC_RESOURCES,
    NodeCode.EXTENDED_UNKNOWN: SchedulingRule.DYNAMIC_RESOURCES,
    NodeCode.CANNOT_ALLOCATE: SchedulingRule.DYNAMIC_RESOURCES,
    NodeCode.DEVICES_TIMED_OUT: SchedulingRule.DYNAMIC_RESOURCES,
    NodeCode.DEVICES_WRONG: SchedulingRule.DYNAMIC_RESOURCES,
    NodeCode.DEVICES_INSUFFICIENT: SchedulingRule.DYNAMIC_RESOURCES,
    NodeCode.LACKS_FEATURE: SchedulingRule.DYNAMIC_RESOURCES,
    NodeCode.POD_REQUEST_SHORT: SchedulingRule.DYNAMIC_RESOURCES,
    NodeCode.NODE_CLAIM_SHARED: SchedulingRule.DYNAMIC_RESOURCES,
}


class NodeReason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a rule refuses a node.

    `subject` is what the code is about: the key of a taint, a resource, a topology key, a claim; `value` is that of the
    taint. `wanted` is what the pod asks for (of a spread constraint: the skew that it allows), `found` what the node
    could give (the skew that there would be). `problem` is the wrong input of claims, classes or devices.
    """

    code: NodeCode
    subject: str = ""
    value: str = ""
    wanted: int | None = None
    found: int | None = None
    problem: InputProblem | None = None

    @property
    def rule(self) -> SchedulingRule:
        return RULE_OF[self.code]


class NodeVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What every rule says of one node. Nothing speaks against a node without reasons.

    `devices` tells where devices ran out, `progress` how far a search came that was broken off.
    """

    node: str
    reasons: tuple[NodeReason, ...] = ()
    devices: Reasons | None = None
    progress: TimedOut | None = None

    @property
    def fits(self) -> bool:
        return not self.reasons

    @property
    def may_run(self) -> bool:
        """Whether the pod could run here if there were devices for its pending claims."""
        return all(reason.code in DEVICE_CODES for reason in self.reasons)

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The claims whose devices cannot be reached from the node."""
        return tuple(reason.subject for reason in self.reasons if reason.code is NodeCode.CLAIM_ELSEWHERE)

    @property
    def rules(self) -> tuple[NodeReason, ...]:
        """The reasons that have nothing to do with which devices there are."""
        return tuple(
            reason
            for reason in self.reasons
            if reason.rule is not SchedulingRule.DYNAMIC_RESOURCES or reason.code in BESIDE_DEVICES
        )

    @property
    def problem(self) -> InputProblem | None:
        return next((reason.problem for reason in self.reasons if reason.problem is not None), None)

    @property
    def is_late(self) -> bool:
        """Whether nobody found out in time if the node has devices."""
        return any(reason.code is NodeCode.DEVICES_TIMED_OUT for reason in self.reasons)

    @property
    def is_served(self) -> bool:
        """Whether the node has devices for all pending claims."""
        return not any(reason.code in DEVICE_CODES for reason in self.reasons)


BESIDE_DEVICES = frozenset(
    {
        NodeCode.DEVICES_INSUFFICIENT,
        NodeCode.LACKS_FEATURE,
        NodeCode.POD_REQUEST_SHORT,
        NodeCode.NODE_CLAIM_SHARED,
    }
)
"""What keeps a pod from a node that has devices for it, and has to do with these devices."""
DEVICE_CODES = frozenset({NodeCode.CANNOT_ALLOCATE, NodeCode.DEVICES_TIMED_OUT, NodeCode.DEVICES_WRONG})


class PreemptionCode(StrEnum):
    """Why nobody is preempted for a pod, or nobody on a node."""

    NEVER = "never"  # the pod's preemptionPolicy says so
    ADMIN_ACCESS = "admin-access"  # the pod asks for devices that others keep using
    TERMINATING = "terminating"  # pods were preempted for it already and are still there
    RELEASING = "releasing"  # they are gone, and their claims still hold devices
    UNAVAILABLE = "unavailable"  # no node helps; `NoPreemption` counts why
    NO_VICTIMS = "no-victims"  # of a node: all pods there are at least as important
    NOT_HELPFUL = "not-helpful"  # of a node: it refuses for a reason that no pod's end changes
    OUT_OF_STEPS = "out-of-steps"  # of a node: to find out takes too long
    GROUP_WAITING = "group-waiting"  # pods leave, or have left, for the pod's group
    GROUP_NO_VICTIMS = "group-no-victims"  # of all nodes: no end of less important pods makes room for the whole group


class NoPreemption(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why nobody is preempted for a pod. `counts` tells of how many nodes what holds.

    `reasons` tells of how many nodes a rule refuses the pod even when all less important pods are gone.
    """

    code: PreemptionCode
    nodes: int = 0
    counts: Mapping[PreemptionCode, int] = {}
    reasons: Mapping[NodeReason, int] = {}


class Unschedulable(msgspec.Struct, frozen=True):
    """Why a pod gets no node: what its condition and its events say.

    `reasons` has for each reason the set of nodes, of `nodes` in all, as bits. Where the claims of the pod are in the way
    before any node is looked at, `problem` says so; `wrong` is input that no node makes right. `nearest` is the node
    where the pod came farthest with its devices, `late` one for which there was not enough time. `deallocates` says that a
    claim in the way loses its devices now, `deletes` that one goes which an earlier attempt has left over. `group` is why
    the pod's gang is not placed; the rest is then about the pod that found no place in it. `preemption` says why nobody is
    preempted for the pod.
    """

    nodes: int
    reasons: Mapping[NodeReason, int] = {}
    problem: ClaimProblem | None = None
    wrong: InputProblem | None = None
    nearest: Reasons | None = None
    late: str = ""
    deallocates: bool = False
    deletes: bool = False
    group: GroupProblem | None = None
    preemption: NoPreemption | None = None
