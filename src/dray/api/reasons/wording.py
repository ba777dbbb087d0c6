"""Formats codes as text; the only module that creates sentences about decisions.

`TEXTS` has one template per code; where Kubernetes has a text, the template is that text. The package `causes`
adds the templates of causes and suggestions. A test replaces every template by its code to show that no program
parses the sentences.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from msgspec.structs import asdict, replace

from dray.api.binding_conditions import BindingState, DeviceBinding
from dray.api.reasons.autoscaling import NoHelp, ScaleUp, Stays
from dray.api.reasons.cause_texts import CAUSE_TEXTS, CausePhrase
from dray.api.reasons.claims import ClaimCode, ClaimProblem
from dray.api.reasons.devices import (
    AlternativeReasons,
    AmountLimit,
    ConstraintReasons,
    DeviceStep,
    InputCode,
    InputProblem,
    PoolCode,
    PoolProblem,
    PoolReasons,
    PoolState,
    Reasons,
    RequestConflict,
    RequestReasons,
    StepCode,
    TimedOut,
    TimeoutCode,
)
from dray.api.reasons.groups import GroupCode, GroupProblem, Proof
from dray.api.reasons.nodes import (
    NodeCode,
    NodeReason,
    NodeVerdict,
    NoPreemption,
    PreemptionCode,
    Unschedulable,
)


class Phrase(StrEnum):
    """Codes of sentences that combine several codes."""

    ONE_DEVICE = "one-device"
    SOME_DEVICES = "some-devices"
    ALL_COUNTED_DEVICES = "all-counted-devices"
    ALL_DEVICES = "all-devices"
    CLAIM_SHORT = "claim-short"
    REQUEST_SHORT = "request-short"
    OR_ALTERNATIVE = "or-alternative"
    TREE_NODE = "tree-node"
    TREE_REQUEST = "tree-request"
    TREE_ONLY_WAY = "tree-only-way"
    TREE_ALTERNATIVE = "tree-alternative"
    TREE_ENOUGH = "tree-enough"
    TREE_TOO_FEW = "tree-too-few"
    TREE_LOST_HERE = "tree-lost-here"
    CONSTRAINT_DISTINCT = "constraint-distinct"
    CONSTRAINT_NOBODY = "constraint-nobody"
    CONSTRAINT_FEW = "constraint-few"
    CONFLICT_REQUEST = "conflict-request"
    CONFLICT_ALONE = "conflict-alone"
    CONFLICT_SHORT = "conflict-short"
    CONFLICT_TOGETHER = "conflict-together"
    TOGETHER = "together"
    POOL_IS = "pool-is"
    POOL_NEEDS = "pool-needs"
    NO_NODES = "no-nodes"
    ALL_NODES = "all-nodes"
    SOME_NODES = "some-nodes"
    ONE_NODE = "one-node"
    BOUND = "bound"
    NOT_BOUND = "not-bound"
    DEVICES_PENDING = "devices-pending"
    DEVICES_FAILED = "devices-failed"
    DEVICES_LATE = "devices-late"
    DEALLOCATED = "deallocated"
    DELETED = "deleted"
    GROUP_POD = "group-pod"
    PREEMPTION = "preemption"
    PREEMPTED_FOR = "preempted-for"
    PREEMPTED_BY = "preempted-by"


_HINT = (
    "consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)
_REQUEST = "claim {claim}, request {request}"
_ALL = f"{_REQUEST}: asks for all devices, but resource pool {{pool}} is currently "
_DEVICE_CAPACITY = f"{_REQUEST}: capacity {{subject}} of device {{device}}"
_CAPACITY_OFF = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
_SELECTOR = "claim {claim}: selector #{number}"
_CLASS_SELECTOR = "class {subject}: selector #{number}"
_COMPILE = ": CEL compile error: {detail}"
_RUNTIME = " on device {device}: CEL runtime error: {detail}"
_CONSTRAINT = "claim {claim}: requests {requests} need {needed} devices that"
_CONFLICT = "requests {requests} cannot be served together"
_PRE_BIND = 'running PreBind plugin "DynamicResources"'
_EMPTY = "CEL expression empty (unsupported selector type?)"

TEXTS: dict[str, str] = {
    **CAUSE_TEXTS,
    StepCode.PUBLISHED: "published",
    StepCode.CLASS: "match class {subject}",
    StepCode.SELECTOR: "match selector #{number}",
    StepCode.SUPPORTED: "supported with {subject} off",
    StepCode.TOLERATED: "tolerated",
    StepCode.FREE: "free",
    StepCode.COMPATIBLE: "compatible with what is in use",
    StepCode.CAPACITY: "with enough capacity left",
    StepCode.COUNTERS: "within the counters left",
    StepCode.MATCHING: "share a value of {subject}",
    StepCode.DISTINCT: "differ in {subject}",
    AmountLimit.LEFT: "{left} left",
    AmountLimit.TOTAL: "{left} in all",
    AmountLimit.REQUEST: "{left} at most for one request",
    PoolState.USABLE: "usable",
    PoolState.INCOMPLETE: "being updated",
    PoolState.INVALID: "invalid",
    PoolCode.SLICES_MISSING: "incomplete: {published} of {expected} slices are published",
    PoolCode.SLICE_COUNTS_DIFFER: "slices disagree about the number of slices: {expected}",
    PoolCode.DUPLICATE_DEVICE: "device {device} appears in multiple slices",
    PoolCode.DUPLICATE_COUNTER_SET: "counter set {counter_set} appears more than once",
    PoolCode.UNKNOWN_COUNTER_SET: "device {device} consumes counter set {counter_set}, which is not published",
    PoolCode.UNKNOWN_COUNTER: (
        "device {device} consumes counter {counter} of counter set {counter_set}, which is not published"
    ),
    PreemptionCode.NEVER: "not eligible due to preemptionPolicy=Never.",
    PreemptionCode.ADMIN_ACCESS: "not eligible due to a request for admin access to devices.",
    PreemptionCode.TERMINATING: "not eligible due to a terminating pod on the nominated node.",
    PreemptionCode.RELEASING: "waiting for the devices of preempted pods to be released.",
    PreemptionCode.UNAVAILABLE: "no node would be available",
    PreemptionCode.NO_VICTIMS: "No preemption victims found for incoming pod",
    PreemptionCode.NOT_HELPFUL: "Preemption is not helpful for scheduling",
    PreemptionCode.OUT_OF_STEPS: "Finding preemption victims takes too long",
    PreemptionCode.GROUP_WAITING: "waiting for the preemption for this pod group to be finished",
    PreemptionCode.GROUP_NO_VICTIMS: "No preemption victims found for incoming preemptor",
    Phrase.PREEMPTION: "preemption: {why}",
    Phrase.PREEMPTED_FOR: "{scheduler}: preempting to accommodate a higher priority {preemptor}",
    Phrase.PREEMPTED_BY: "Preempted by pod {uid} on node {node}",
    TimeoutCode.SELECTORS: "timed out while selectors were evaluated",
    TimeoutCode.SEARCH: (f"timed out at {_REQUEST} (request {{number}} of {{requests}}), with {{got}} of its devices"),
    InputCode.SUBREQUESTS_OFF: f"{_REQUEST}: has subrequests, but the DRAPrioritizedList feature is disabled",
    InputCode.NO_REQUEST_TYPE: f"{_REQUEST}: has neither exactly nor firstAvailable (unsupported request type?)",
    InputCode.CAPACITY_OFF: f"{_REQUEST}: {_CAPACITY_OFF}",
    InputCode.SUBREQUEST_CAPACITY_OFF: f"claim {{claim}}, subrequest {{request}}: {_CAPACITY_OFF}",
    InputCode.EMPTY_CONSTRAINT: (
        "claim {claim}, constraint #{number}: empty constraint (unsupported constraint type?)"
    ),
    InputCode.EMPTY_SELECTOR: f"{_REQUEST}, selector #{{number}}: {_EMPTY}",
    InputCode.CLASS_EMPTY_SELECTOR: f"{_CLASS_SELECTOR}: {_EMPTY}",
    InputCode.ADMIN_ACCESS_OFF: f"{_REQUEST}: admin access is requested, but the feature is disabled",
    InputCode.NO_CLASS_NAME: f"{_REQUEST}: missing device class name (unsupported request type?)",
    InputCode.CLASS_NOT_FOUND: (
        f'{_REQUEST}: could not retrieve device class {{subject}}: device class "{{subject}}" not found'
    ),
    InputCode.COUNT_MODE: f"{_REQUEST}: unsupported count mode {{subject}}",
    InputCode.TOO_MANY_DEVICES: "claim {claim}: number of requested devices {number} exceeds the claim limit of {limit}",
    InputCode.POOL_INCOMPLETE: f"{_ALL}being updated",
    InputCode.POOL_INVALID: f"{_ALL}invalid",
    InputCode.SELECTOR_COMPILE: f"{_SELECTOR}{_COMPILE}",
    InputCode.CLASS_SELECTOR_COMPILE: f"{_CLASS_SELECTOR}{_COMPILE}",
    InputCode.SELECTOR_RUNTIME: f"{_SELECTOR}{_RUNTIME}",
    InputCode.CLASS_SELECTOR_RUNTIME: f"{_CLASS_SELECTOR}{_RUNTIME}",
    InputCode.SELECTOR_MISSING_KEY: f"{_SELECTOR}{_RUNTIME}. {_HINT}",
    InputCode.CLASS_SELECTOR_MISSING_KEY: f"{_CLASS_SELECTOR}{_RUNTIME}. {_HINT}",
    InputCode.DERIVED_FAILED: "evaluate derived attribute {subject} on device {device} failed: {detail}",
    InputCode.CAPACITY_NEGATIVE: f"{_DEVICE_CAPACITY}: capacity value is negative",
    InputCode.CAPACITY_BEYOND_RANGE: (
        f"{_DEVICE_CAPACITY}: capacity request cannot be represented in the device's range arithmetic"
    ),
    InputCode.CONSTRAINT_REFUSED: (
        f"{_REQUEST}: cannot add device {{device}} because a claim constraint would not be satisfied"
    ),
    InputCode.INVALID_POOLS: "invalid resource pools were encountered",
    InputCode.NODE_SELECTOR_TERMS: ("create NodeSelector: unsupported ResourceSlice.NodeSelector with {number} terms"),
    InputCode.UNKNOWN_NODE: "node {subject} is not known",
    Phrase.ONE_DEVICE: "{number} device",
    Phrase.SOME_DEVICES: "{number} devices",
    Phrase.ALL_COUNTED_DEVICES: "all {number} devices",
    Phrase.ALL_DEVICES: "all devices",
    Phrase.CLAIM_SHORT: "claim {claim}: {requests}",
    Phrase.REQUEST_SHORT: "request {request} needs {devices}: {steps}",
    Phrase.OR_ALTERNATIVE: "; or ",
    Phrase.TREE_NODE: "node {node}",
    Phrase.TREE_REQUEST: _REQUEST,
    Phrase.TREE_ONLY_WAY: "needs {devices}: {verdict}",
    Phrase.TREE_ALTERNATIVE: "alternative {name} needs {devices}: {verdict}",
    Phrase.TREE_ENOUGH: "enough",
    Phrase.TREE_TOO_FEW: "too few",
    Phrase.TREE_LOST_HERE: "<- here",
    Phrase.CONSTRAINT_DISTINCT: f"{_CONSTRAINT} all differ in {{attribute}}",
    Phrase.CONSTRAINT_NOBODY: f"{_CONSTRAINT} share {{attribute}}: no free device has it",
    Phrase.CONSTRAINT_FEW: f"{_CONSTRAINT} share {{attribute}}: its best value, {{value}}, has {{best}} free",
    Phrase.CONFLICT_REQUEST: "{request} of claim {claim}",
    Phrase.CONFLICT_ALONE: "request {requests} cannot be served within its constraints",
    Phrase.CONFLICT_SHORT: (f"{_CONFLICT}: they need {{devices}}, and only {{best}} can serve any of them"),
    Phrase.CONFLICT_TOGETHER: f"{_CONFLICT}: each could be served without the others",
    Phrase.TOGETHER: "the requests cannot be served together",
    Phrase.POOL_IS: "pool {pool} is {state}",
    Phrase.POOL_NEEDS: "pool {pool} cannot be used with {gate} off",
    NodeCode.UNSCHEDULABLE: "node(s) were unschedulable",
    NodeCode.OTHER_NAME: "node(s) didn't match the requested node name",
    NodeCode.TAINT: "node(s) had untolerated taint {{{subject}: {value}}}",
    NodeCode.NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    NodeCode.PORTS: "node(s) didn't have free ports for the requested pod ports",
    NodeCode.TOO_MANY_PODS: "Too many pods",
    NodeCode.INSUFFICIENT: "Insufficient {subject}",
    NodeCode.POD_AFFINITY: "node(s) didn't match pod affinity rules",
    NodeCode.POD_ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    NodeCode.EXISTING_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
    NodeCode.SPREAD: "node(s) didn't match pod topology spread constraints",
    NodeCode.SPREAD_LABEL: "node(s) didn't match pod topology spread constraints (missing required label)",
    NodeCode.CLAIM_ELSEWHERE: "resourceclaim not available on the node",
    NodeCode.CLAIM_LOST: "resourceclaim not available on the node",
    NodeCode.EXTENDED_LEFT_OVER: "cannot schedule extended resource claim",
    NodeCode.EXTENDED_UNKNOWN: "cannot fit resource",
    NodeCode.CANNOT_ALLOCATE: "cannot allocate all claims",
    NodeCode.DEVICES_TIMED_OUT: "timed out trying to allocate devices",
    NodeCode.DEVICES_WRONG: "{problem}",
    NodeCode.DEVICES_INSUFFICIENT: "Insufficient {subject}",
    NodeCode.LACKS_FEATURE: "node(s) didn't declare the feature {subject}, which devices need",
    NodeCode.POD_REQUEST_SHORT: (
        "pod level request for {subject} is insufficient to cover the aggregated container and node-allocatable "
        "DRA requests"
    ),
    NodeCode.NODE_CLAIM_SHARED: (
        "node allocatable resource claim {subject} has a mapped device and cannot be shared across pods"
    ),
    Phrase.NO_NODES: "0/{nodes} nodes are available.",
    Phrase.ALL_NODES: "0/{nodes} nodes are available: {why}.",
    Phrase.SOME_NODES: "{count} {why}",
    Phrase.ONE_NODE: "node {node}: {why}.",
    Phrase.BOUND: "Successfully assigned {namespace}/{pod} to {node}",
    Phrase.NOT_BOUND: "binding to node {node} failed: {error}",
    Phrase.DEVICES_PENDING: "waiting for binding conditions for device on node {node}",
    Phrase.DEVICES_FAILED: (
        f'{_PRE_BIND}: device binding failed: claim={{claim}}, reason={{reason}}, message="{{message}}"'
    ),
    Phrase.DEVICES_LATE: f"{_PRE_BIND}: device binding timeout: claim={{claim}}",
    Phrase.DEALLOCATED: "deallocation of ResourceClaim completed",
    Phrase.DELETED: "deletion of ResourceClaim completed",
    Phrase.GROUP_POD: "Pod {pod}: {why}",
    GroupCode.GROUP_UNKNOWN: 'waiting for pods\'s pod group "{group}" to appear in scheduling queue',
    GroupCode.BELOW_MIN_COUNT: "waiting for minCount pods from a gang to appear in scheduling queue",
    GroupCode.SCHEDULER_NAMES: (
        "all pods in a single pod group should have the same .spec.schedulerName set, got: {one} and {other}"
    ),
    GroupCode.PRIORITIES: (
        "all pods in a single pod group should have the same priority as the pod group's priority, got {one} and {other}"
    ),
    GroupCode.POLICIES: "all pods in a single pod group should have the same preemption policy, got {one} and {other}",
    GroupCode.GROUP_POLICY: (
        "all pods in a single pod group should have the same preemption policy as the pod group's preemption policy, "
        "got {one} and {other}"
    ),
    GroupCode.MIN_COUNT_UNREACHED: "minCount ({wanted}) cannot be satisfied: {found} scheduled, {left} remaining",
    GroupCode.NO_PLACEMENT: "0/{domains} placements are available, first placement status: {first}",
    Proof.PROVEN: "No placement of the group exists now.",
    Proof.UNPROVEN: "It is not proven that no placement of the group exists.",
    ClaimCode.GROUP_MISSING: 'podgroup "{group}" not found',
    ClaimCode.GROUP_LACKS_CLAIM: 'podgroup "{group}" has no resource claim "{subject}"',
    ClaimCode.NOT_CREATED: (
        "ResourceClaim not created yet: waiting for the one of entry {entry} to be created from its template"
    ),
    ClaimCode.NOT_FOUND: 'resourceclaim "{claim}" not found',
    ClaimCode.NOT_FOR_POD: "ResourceClaim {claim} was not created for pod {pod}",
    ClaimCode.NOT_FOR_GROUP: "ResourceClaim {claim} was not created for PodGroup {group} of pod {pod}",
    ClaimCode.DELETING: 'resourceclaim "{claim}" is being deleted',
    ClaimCode.BEING_ALLOCATED: "resourceclaim is in the process of being allocated",
    ClaimCode.CLASS_MISSING: "request {request}: device class {subject} does not exist",
    ClaimCode.FULL: 'resourceclaim "{claim}" is in use by {limit} consumers, no more can be added',
    ClaimCode.NOT_ALLOCATED: "ResourceClaim {claim} is not allocated",
    ClaimCode.OUT_OF_REACH: "ResourceClaim {claim} is allocated where node {subject} cannot reach it",
    ClaimCode.NOT_RESERVED: "pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {claim} ({claim_uid})",
    NoHelp.REFUSED: "an empty node refuses it: {why}",
    NoHelp.CLOSED: "failed lately and is left alone for a while",
    NoHelp.NO_ROOM: "may not have as many more nodes as are needed",
    NoHelp.NETWORK: "would fit, but no device on the network is left",
    ScaleUp.TRIGGERED: "pod triggered scale-up: {group} {now}->{then}",
    ScaleUp.NOTHING: "pod didn't trigger scale-up: no node group helps it",
    Stays.MINIMUM: "its group {subject} has no more nodes than its minimum",
    Stays.NO_CONTROLLER: "pod {subject} has no controller that would make it again",
    Stays.NOT_TO_BE_EVICTED: "an annotation of pod {subject} forbids to evict it",
    Stays.BUDGET: "PodDisruptionBudget {subject} does not allow it",
    Stays.NO_PLACE: "pod {subject} finds no place elsewhere",
    Stays.HELD: "claim {subject} holds devices of it",
}


def say(code: str, /, **subjects: object) -> str:
    """Return the template of a code filled with values. Raises KeyError for an unknown code or a missing value."""
    return TEXTS[code].format(**subjects)


# Devices: one problem or condition each.


def input_problem(problem: InputProblem) -> str:
    """Return the text of invalid input, in the wording of Kubernetes."""
    return say(problem.code, **asdict(problem))


def pool_problem(problem: PoolProblem) -> str:
    """Return the text of a pool's problem."""
    return say(problem.code, **asdict(problem) | {"expected": ", ".join(map(str, problem.expected))})


def timed_out(progress: TimedOut) -> str:
    """Return the text of how far an allocation came before its timeout."""
    return say(progress.code, **asdict(progress))


def step(found: DeviceStep) -> str:
    """Return the number of devices left after a condition, for example `3 match class gpu`."""
    return f"{found.devices} {condition(found)}"


def condition(found: DeviceStep) -> str:
    """Return the text of a condition, for example `match class gpu`."""
    return say(found.code, subject=found.subject, number=found.number)


# Devices: why claims cannot be allocated on a node.


def line(reasons: Reasons) -> str:
    """Return the first reason that explains why claims cannot be allocated, as one line for an event."""
    if reasons.lacking is not None:
        text = _shortage(reasons.lacking)
    elif reasons.constraints:
        text = _constraint(reasons.constraints[0])
    elif reasons.conflict is not None:
        text = _conflict(reasons.conflict)
    else:
        text = say(Phrase.TOGETHER)
    return "; ".join([text, *(unusable_pool(pool) for pool in reasons.pools)])


def tree(reasons: Reasons) -> str:
    """Return all reasons why claims cannot be allocated, as several lines: every request with every condition."""
    lines = [say(Phrase.TREE_NODE, node=reasons.node)]
    lines += [f"  {say(CausePhrase.UNUSED_POOL, pool=unusable_pool(pool))}" for pool in reasons.pools]
    for request in reasons.requests:
        lines.append(f"  {say(Phrase.TREE_REQUEST, claim=request.claim, request=request.request)}")
        for alternative in request.alternatives:
            lines += _alternative_lines(alternative, named=len(request.alternatives) > 1)
    lines += [f"  {_constraint(constraint)}" for constraint in reasons.constraints]
    if reasons.conflict is not None and not reasons.explains(reasons.conflict):
        lines.append(f"  {_conflict(reasons.conflict)}")
    return "\n".join(lines)


def unusable_pool(pool: PoolReasons) -> str:
    """Return why a pool cannot be used, for example `pool gpu.example.com/n1 is being updated`."""
    if pool.gate:
        return say(Phrase.POOL_NEEDS, pool=pool.pool, gate=pool.gate)
    return say(Phrase.POOL_IS, pool=pool.pool, state=say(pool.state))


def devices(number: int, every: bool = False) -> str:
    """Return `1 device` or `2 devices`; if `every` device is requested, `all 2 devices`, or `all devices` for zero."""
    if every:
        phrase = Phrase.ALL_COUNTED_DEVICES if number else Phrase.ALL_DEVICES
    else:
        phrase = Phrase.ONE_DEVICE if number == 1 else Phrase.SOME_DEVICES
    return say(phrase, number=number)


def _shortage(request: RequestReasons) -> str:
    parts = []
    for alternative in request.alternatives:
        until = alternative.steps.index(alternative.lost_at) + 1
        steps = ", ".join(step(one) for one in alternative.steps[:until])
        needed = devices(alternative.needed, alternative.every)
        parts.append(say(Phrase.REQUEST_SHORT, request=alternative.name, devices=needed, steps=steps))
    return say(Phrase.CLAIM_SHORT, claim=request.claim, requests=say(Phrase.OR_ALTERNATIVE).join(parts))


def _alternative_lines(alternative: AlternativeReasons, named: bool) -> list[str]:
    title = say(
        Phrase.TREE_ALTERNATIVE if named else Phrase.TREE_ONLY_WAY,
        name=alternative.name,
        devices=devices(alternative.needed, alternative.every),
        verdict=say(Phrase.TREE_ENOUGH if alternative.enough else Phrase.TREE_TOO_FEW),
    )
    lines = [f"    {title}"]
    lost = None if alternative.enough else alternative.lost_at
    for one in alternative.steps:
        mark = f"  {say(Phrase.TREE_LOST_HERE)}" if one is lost else ""
        lines.append(f"      {one.devices:>4} {condition(one)}{mark}")
    return lines


def _constraint(found: ConstraintReasons) -> str:
    phrase = Phrase.CONSTRAINT_FEW if found.best else Phrase.CONSTRAINT_NOBODY
    return say(
        Phrase.CONSTRAINT_DISTINCT if found.distinct else phrase,
        claim=found.claim,
        requests=", ".join(found.requests),
        needed=found.needed,
        attribute=found.attribute,
        value=found.best_value,
        best=found.best,
    )


def _conflict(conflict: RequestConflict) -> str:
    phrase = Phrase.CONFLICT_SHORT if conflict.devices < conflict.needed else Phrase.CONFLICT_TOGETHER
    return say(
        Phrase.CONFLICT_ALONE if len(conflict.requests) == 1 else phrase,
        requests=", ".join(request_of(claim, request) for claim, request in conflict.requests),
        devices=devices(conflict.needed),
        best=conflict.devices,
    )


def request_of(claim: str, request: str) -> str:
    """Return the name of a request among several: `r of claim c`."""
    return say(Phrase.CONFLICT_REQUEST, claim=claim, request=request)


# Nodes and claims.


def node_reason(reason: NodeReason) -> str:
    """Return the text of why a rule refuses a node, in the wording of Kubernetes."""
    problem = input_problem(reason.problem) if reason.problem is not None else ""
    return say(reason.code, subject=reason.subject, value=reason.value, problem=problem)


def claim_problem(problem: ClaimProblem) -> str:
    """Return the text of why a pod cannot use a claim."""
    return say(problem.code, **asdict(problem))


def verdict(found: NodeVerdict) -> str:
    """Return why a node refuses a pod, as one line: the reasons of the rules, and where devices ran out."""
    said = [node_reason(reason) for reason in found.reasons if reason.code is not NodeCode.CANNOT_ALLOCATE]
    if found.devices is not None:
        said.append(line(found.devices))
    return ", ".join(said) or say(NodeCode.CANNOT_ALLOCATE)


def no_help(code: NoHelp, why: str = "") -> str:
    """Return the text of why a node group does not help a pod."""
    return say(code, why=why)


def scales_up(group: str, now: int, then: int) -> str:
    """Return the text that a node group grows for a pod, from `now` to `then` nodes."""
    return say(ScaleUp.TRIGGERED, group=group, now=now, then=then)


def scales_nothing() -> str:
    """Return the text that no node group grows for a pod."""
    return say(ScaleUp.NOTHING)


def stays(code: Stays, subject: str) -> str:
    """Return the text of why a node cannot be removed."""
    return say(code, subject=subject)


def group_problem(problem: GroupProblem) -> str:
    """Return why a PodGroup is not placed, in the wording of Kubernetes, followed by whether this is proven."""
    first = group_problem(problem.first) if problem.first is not None else ""
    text = say(problem.code, **{**asdict(problem), "first": first})
    return text if problem.proof is None else f"{text}. {say(problem.proof)}"


def group_waits(why: Unschedulable) -> str:
    """Return why a PodGroup is not placed, and why no pod is preempted for it if that is known.

    `why.group` must be set.
    """
    assert why.group is not None
    text = group_problem(why.group)
    if why.preemption is None:
        return text
    return f"{text.removesuffix('.')}. {say(Phrase.PREEMPTION, why=no_preemption(why.preemption))}"


def unschedulable(why: Unschedulable) -> str:
    """Return why a pod gets no node, in the wording of Kubernetes, with details of the nearest node."""
    if why.group is None:
        return _no_node(why)
    if not why.group.pod:
        return group_waits(why)
    text = group_problem(why.group)
    about = _no_node(replace(why, group=None))
    return f"{text.removesuffix('.')}. {say(Phrase.GROUP_POD, pod=why.group.pod, why=about)}"


def _no_node(why: Unschedulable) -> str:
    if why.problem is not None:
        sentences = [say(Phrase.ALL_NODES, nodes=why.nodes, why=claim_problem(why.problem))]
        if why.preemption is not None:
            sentences.append(say(Phrase.PREEMPTION, why=no_preemption(why.preemption)))
        return " ".join(sentences)
    if why.wrong is not None:
        return say(Phrase.ALL_NODES, nodes=why.nodes, why=input_problem(why.wrong))
    counts: dict[str, int] = {}
    for reason, nodes in why.reasons.items():
        text = node_reason(reason)
        counts[text] = counts.get(text, 0) | nodes
    listed = sorted(say(Phrase.SOME_NODES, count=nodes.bit_count(), why=text) for text, nodes in counts.items())
    sentences = [say(Phrase.ALL_NODES if listed else Phrase.NO_NODES, nodes=why.nodes, why=", ".join(listed))]
    if why.nearest is not None:
        sentences.append(say(Phrase.ONE_NODE, node=why.nearest.node, why=line(why.nearest)))
    if why.late:
        sentences.append(say(Phrase.ONE_NODE, node=why.late, why=say(NodeCode.DEVICES_TIMED_OUT)))
    if why.deallocates:
        sentences.append(say(Phrase.DEALLOCATED))
    if why.deletes:
        sentences.append(say(Phrase.DELETED))
    if why.preemption is not None:
        sentences.append(say(Phrase.PREEMPTION, why=no_preemption(why.preemption)))
    return " ".join(sentences)


def no_preemption(why: NoPreemption) -> str:
    """Return why no pod is preempted, in the wording of Kubernetes."""
    if why.code is not PreemptionCode.UNAVAILABLE:
        return say(why.code)
    counts = Counter({say(code): count for code, count in why.counts.items()})
    for reason, count in why.reasons.items():
        counts[node_reason(reason)] += count
    listed = sorted(say(Phrase.SOME_NODES, count=count, why=text) for text, count in counts.items())
    return say(Phrase.ALL_NODES if listed else Phrase.NO_NODES, nodes=why.nodes, why=", ".join(listed))


def preempted_for(scheduler: str, *, group: bool = False) -> str:
    """Return the message of a victim's condition: that it is preempted for a pod, or for a PodGroup if `group`."""
    return say(Phrase.PREEMPTED_FOR, scheduler=scheduler, preemptor="podgroup" if group else "pod")


def preempted_by(uid: str, node: str) -> str:
    """Return the message of a victim's event: that the pod with this UID preempted it on a node."""
    return say(Phrase.PREEMPTED_BY, uid=uid, node=node)


def bound(namespace: str, pod: str, node: str) -> str:
    """Return the message that a pod is assigned to a node."""
    return say(Phrase.BOUND, namespace=namespace, pod=pod, node=node)


def not_bound(node: str, error: str) -> str:
    """Return the message that binding a pod to its node failed."""
    return say(Phrase.NOT_BOUND, node=node, error=error)


def waits_for_devices(node: str) -> str:
    """Return the message that drivers have not made the devices of a pod ready yet."""
    return say(Phrase.DEVICES_PENDING, node=node)


def devices_not_ready(found: DeviceBinding) -> str:
    """Return the message that drivers failed to make a pod's devices ready, or took too long."""
    if found.state is BindingState.FAILED:
        return say(Phrase.DEVICES_FAILED, claim=found.claim, reason=found.reason, message=found.message)
    return say(Phrase.DEVICES_LATE, claim=found.claim)
