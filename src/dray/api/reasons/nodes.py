"""Reasons why scheduling rules refuse a node, as data: a code, its subject and numbers.

The scheduler counts these reasons, and explain lists them per node. `dray.verdicts` implements the rules;
`wording` formats the reasons as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.devices import InputProblem, Reasons, TimedOut
from dray.api.reasons.groups import GroupProblem


class SchedulingRule(StrEnum):
    """A scheduling rule, named after the Kubernetes plugin."""

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
    """Why a rule refuses a node, in the order in which the rules are checked."""

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

    `subject` is what the code is about: the key of a taint, a resource, a topology key or a claim; `value` is the
    value of the taint. `wanted` is what the pod requests (for a spread constraint, the maximum skew), `found`
    what the node could provide (the resulting skew). `problem` is invalid input of claims, classes or devices.
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
    """Results of all rules for one node. Without `reasons`, the pod fits on the node.

    `devices` says where devices ran out; `progress` how far a search came before its timeout.
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
        """Whether the pod could run on this node if the node had devices for its pending claims.

        True also if there are no reasons.
        """
        return all(reason.code in DEVICE_CODES for reason in self.reasons)

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The claims whose allocated devices cannot be reached from the node."""
        return tuple(reason.subject for reason in self.reasons if reason.code is NodeCode.CLAIM_ELSEWHERE)

    @property
    def rules(self) -> tuple[NodeReason, ...]:
        """The reasons that do not depend on which devices are available."""
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
        """Whether the search for devices on the node timed out."""
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
"""Codes of the rule DynamicResources that refuse a node although it has devices for the pod."""
DEVICE_CODES = frozenset({NodeCode.CANNOT_ALLOCATE, NodeCode.DEVICES_TIMED_OUT, NodeCode.DEVICES_WRONG})


class PreemptionCode(StrEnum):
    """Why no pod is preempted, in general or on one node."""

    NEVER = "never"  # the preemptionPolicy of the pod is Never
    ADMIN_ACCESS = "admin-access"  # the pod requests admin access, which preemption does not help
    TERMINATING = "terminating"  # pods were already preempted for this pod and are still terminating
    RELEASING = "releasing"  # the preempted pods are gone, but their claims still hold devices
    UNAVAILABLE = "unavailable"  # preemption helps on no node; `NoPreemption` counts the reasons
    NO_VICTIMS = "no-victims"  # on a node: all pods have at least the same priority
    NOT_HELPFUL = "not-helpful"  # on a node: the node refuses the pod for a reason that preemption cannot change
    OUT_OF_STEPS = "out-of-steps"  # on a node: the search takes too long
    GROUP_WAITING = "group-waiting"  # pods were already preempted for the pod's group
    GROUP_NO_VICTIMS = "group-no-victims"  # on all nodes: preempting lower priorities does not make the whole group fit


class NoPreemption(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why no pod is preempted. `counts` has the number of nodes per code.

    `reasons` has the number of nodes per reason why the pod does not fit even without all pods of lower priority.
    """

    code: PreemptionCode
    nodes: int = 0
    counts: Mapping[PreemptionCode, int] = {}
    reasons: Mapping[NodeReason, int] = {}


class Unschedulable(msgspec.Struct, frozen=True):
    """Why a pod gets no node; the content of its condition and events.

    `reasons` maps each reason to the set of nodes it applies to, as a bit set over `nodes` nodes. `problem` is a
    problem of the pod's claims that prevents checking any node; `wrong` is invalid input that no node can
    satisfy. `nearest` has the device reasons of the node that came closest; `late` is a node whose search timed
    out. `deallocates` says that a blocking claim is being deallocated, `deletes` that a claim left over from an
    earlier attempt is being deleted. `group` is why the pod's gang is not placed; the other fields are then about
    the member that did not fit. `preemption` is why no pod is preempted.
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
