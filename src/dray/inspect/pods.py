"""What a pod waits for, step by step: its group, its claims, their classes, devices, a node, the scheduler.

The first step that fails is the cause, whatever else may be wrong. Pure. Left out: why devices do not suffice
(`shortage`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dray.api import podclaims
from dray.api.binding_conditions import BindingState, DeviceBinding, device_binding
from dray.api.claim_access import Knowledge, PodClaims, Purpose, claim_problem, claims_of, classes_of
from dray.api.extended_resources import ExtendedResources, is_special, needs_of, special_claim
from dray.api.podclaims import Sharing
from dray.api.quantity import Quantity
from dray.api.reasons import wording
from dray.api.reasons.claims import ClaimCode, ClaimProblem
from dray.api.reasons.nodes import NodeReason, NodeVerdict
from dray.api.resources import BY_TYPE
from dray.api.types.core import Event, Node, Pod, ResourceQuota
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup
from dray.api.usage import ZERO, names_for, usage_of
from dray.inspect.explanation import Cause, Holder
from dray.inspect.hardware import alike
from dray.inspect.placement import Deadlines, judge
from dray.inspect.shortage import ClaimShortage
from dray.inspect.snapshot import Snapshot
from dray.verdicts.demand import demand_of

_NODE_TROUBLE = ("FailedPrepareDynamicResources", "FailedCreatePodSandBox", "Failed", "BackOff")


class CauseFinding(NamedTuple):
    """A cause with what was looked at to find it."""

    cause: Cause
    nodes: tuple[NodeVerdict, ...] = ()
    holders: tuple[Holder, ...] = ()
    waits: bool = True


class PodCase:
    """One pod, examined step by step."""

    def __init__(self, snapshot: Snapshot, pod: Pod, deadlines: Deadlines) -> None:
        self.snapshot = snapshot
        self.pod = pod
        self.deadlines = deadlines
        self.namespace = pod.metadata.namespace
        self.group_name = podclaims.group_name(pod)
        self.group = snapshot.get(PodGroup, self.group_name, self.namespace) if self.group_name else None
        unknown = snapshot.unserved | snapshot.unreadable
        self.known = Knowledge(
            Sharing(groups=PodGroup not in unknown),
            lambda name: DeviceClass in unknown or name in snapshot.classes,
            labels_of=lambda name: node.metadata.labels if (node := snapshot.get(Node, name)) is not None else {},
        )

    def finding(self) -> CauseFinding:
        settled = self._settled()
        if settled is not None:
            return settled
        gates = [gate.name for gate in self.pod.spec.schedulingGates]
        if gates:
            text = f"its scheduling gates hold it back: {', '.join(gates)}"
            return CauseFinding(Cause("SchedulingGated", text, "their removal"))
        claims = claims_of(self.pod, self.group, self._claim, self.known)
        if isinstance(claims, PodClaims):
            special = filter(is_special, self.snapshot.all(ResourceClaim))
            own = (claim for claim in special if podclaims.is_controlled_by(claim, self.pod.metadata.uid))
            claims.left_over = next(own, None)
            return self._placement(claims)
        return CauseFinding(self._unusable(claims))

    def _claim(self, name: str) -> ResourceClaim | None:
        return self.snapshot.get(ResourceClaim, name, self.namespace)

    # It does not wait for a node

    def _settled(self) -> CauseFinding | None:
        pod = self.pod
        if podclaims.is_finished(pod):
            return CauseFinding(Cause("Finished", f"it is finished: {pod.status.phase}"), waits=False)
        if pod.metadata.deletionTimestamp is not None:
            return CauseFinding(Cause("Deleting", "it is being deleted"), waits=False)
        if not pod.spec.nodeName:
            return None
        if pod.status.phase == "Running":
            return CauseFinding(Cause("Running", f"it runs on {pod.spec.nodeName}"), waits=False)
        return CauseFinding(self._on_node())

    def _on_node(self) -> Cause:
        """It has a node and does not run there yet."""
        node = self.pod.spec.nodeName
        trouble = self._event(*_NODE_TROUBLE)
        if trouble is not None:
            return Cause("NodeTrouble", f"node {node} cannot start it: {trouble.message}")
        if self.snapshot.get(Node, node) is None:
            return Cause("NodeMissing", f"its node {node} does not exist", f"node {node}, or a new pod")
        for use in podclaims.uses_of(self.pod, self.group):
            claim = self._claim(use.claim) if use.claim else None
            problem = claim_problem(Purpose.START, self.pod, use, claim, self.group, self.known) if use.needed else None
            if problem is not None:
                return self._not_started(problem, node)
        return Cause("Starting", f"node {node} has not started it yet")

    def _not_started(self, problem: ClaimProblem, node: str) -> Cause:
        match problem.code:
            case ClaimCode.NOT_RESERVED:
                text = f"node {node} waits: claim {problem.claim} is not reserved for the pod"
                return Cause("NotReserved", text, "a reservation, which the claim controller adds where there is room")
            case ClaimCode.NOT_FOR_POD | ClaimCode.NOT_FOR_GROUP:
                return self._unusable(problem)
            case _:
                text = f"node {node} waits for claim {problem.claim or problem.entry}, which is not allocated"
                return Cause("ClaimNotAllocated", text, "let the scheduler place the pod: do not set spec.nodeName")

    # Its claims

    def _unusable(self, problem: ClaimProblem) -> Cause:
        """Why a claim keeps the pod from being placed on any node."""
        name, group = problem.claim, problem.group
        match problem.code:
            case ClaimCode.GROUP_MISSING:
                text = f'its podgroup "{group}" does not exist'
                return Cause("GroupMissing", text, f"PodGroup {self.namespace}/{group}")
            case ClaimCode.GROUP_LACKS_CLAIM:
                text = f'entry {problem.entry} names claim "{problem.subject}" of podgroup "{group}", which has no such claim'
                return Cause("GroupClaimMissing", text, f"an entry of that name in PodGroup {group}")
            case ClaimCode.NOT_CREATED:
                return self._not_made(problem)
            case ClaimCode.NOT_FOUND:
                return self._not_found(problem)
            case ClaimCode.NOT_FOR_POD | ClaimCode.NOT_FOR_GROUP:
                text = f'resourceclaim "{name}" was not created for it'
                return Cause("ForeignClaim", text, f"delete claim {name}, so that it is made anew")
            case ClaimCode.DELETING:
                return Cause("ClaimDeleting", f'resourceclaim "{name}" is being deleted', "a new claim of that name")
            case ClaimCode.CLASS_MISSING:
                return class_missing(self.snapshot, f"request {problem.request} of claim {name}", problem.subject)
            case ClaimCode.FULL:
                text = f'resourceclaim "{name}" is in use by {problem.limit} consumers, and no more can be added'
                return Cause("ClaimFull", text, "a claim of its own, or a claim for the whole group or workload")
            case _:
                return Cause("ClaimUnusable", wording.claim_problem(problem))

    def _not_found(self, problem: ClaimProblem) -> Cause:
        known = [c for c in self.snapshot.all(ResourceClaim) if c.metadata.namespace == self.namespace]
        named = any(entry.resourceClaimName == problem.claim for entry in self.pod.spec.resourceClaims)
        meant = alike(problem.claim, (c.metadata.name for c in known)) if named else ""
        hint = f", did you mean {meant}?" if meant else ""
        text = f'its resourceclaim "{problem.claim}" does not exist{hint}'
        return Cause("ClaimMissing", text, f"ResourceClaim {self.namespace}/{problem.claim}")

    def _not_made(self, problem: ClaimProblem) -> Cause:
        """Its claim should come from a template and is not there."""
        entry = next(entry for entry in self.pod.spec.resourceClaims if entry.name == problem.entry)
        shared = podclaims.group_entry(entry, self.group)
        wanted = (shared or entry).resourceClaimTemplateName or ""
        template = self.snapshot.get(ResourceClaimTemplate, wanted, self.namespace)
        if template is None:
            known = (t.metadata.name for t in self.snapshot.all(ResourceClaimTemplate))
            meant = alike(wanted, known)
            hint = f", did you mean {meant}?" if meant else ""
            text = f'its resourceclaimtemplate "{wanted}" does not exist{hint}'
            return Cause("TemplateMissing", text, f"ResourceClaimTemplate {self.namespace}/{wanted}")
        quota = self._quota(template)
        if quota is not None:
            return quota
        refused = self._event("FailedResourceClaimCreation")
        if refused is not None:
            return Cause("ClaimRefused", f"its claim cannot be created: {refused.message}")
        whose = f'podgroup "{self.group_name}"' if shared is not None else "it"
        text = f"the claim for entry {entry.name} has not been made for {whose}: does the claim controller run?"
        return Cause("NoClaimController", text, "a controller manager that runs the resourceclaim controller")

    def _quota(self, template: ResourceClaimTemplate) -> Cause | None:
        meta = ObjectMeta(name="claim", namespace=self.namespace)
        resource = BY_TYPE[ResourceClaim]
        wanted = usage_of(resource, ResourceClaim(metadata=meta, spec=template.spec.spec))
        for quota in self.snapshot.all(ResourceQuota):
            for name in names_for(resource, quota.spec.hard):
                need, used = wanted.get(name, ZERO), Quantity.parse(quota.status.used.get(name, "0"))
                hard = Quantity.parse(quota.spec.hard[name])
                if need.sign > 0 and used + need > hard:
                    text = (
                        f'quota "{quota.metadata.name}" forbids its claim: {name} is limited to {hard}, '
                        f"{used} are used and {need} asked for"
                    )
                    return Cause("Quota", text, f"{used + need - hard} more of {name} in the quota")
        return None

    # Nodes

    def _placement(self, claims: PodClaims) -> CauseFinding:
        special = [claims.left_over] if claims.left_over is not None else []
        bindings = map(device_binding, (*claims.allocated, *special))
        if waiting := next((found for found in bindings if found.state is not BindingState.READY), None):
            return CauseFinding(_not_ready(waiting))
        verdicts = tuple(judge(self.snapshot, self.pod, claims, self.deadlines.nodes))
        if not verdicts:
            return CauseFinding(Cause("NoNodes", "the cluster has no nodes", "a node"))
        fitting = [verdict.node for verdict in verdicts if verdict.fits]
        if fitting and not any(_stops(verdict) for verdict in verdicts):
            return CauseFinding(self._unscheduled(fitting), verdicts)
        pending = [*claims.pending, *self._special()]
        devices = ClaimShortage(self.snapshot, pending, verdicts, self.deadlines.cluster)
        cause = self._cause(claims, verdicts, devices)
        return CauseFinding(cause, verdicts, devices.holders() if pending else ())

    def _special(self) -> list[ResourceClaim]:
        """The claim for extended resources, where all that devices can serve are served by them."""
        served = ExtendedResources(self.snapshot.classes.values()).served(demand_of(self.pod).amounts)
        return [special_claim(self.pod, needs_of(self.pod, served))] if served else []

    def _cause(self, claims: PodClaims, verdicts: Sequence[NodeVerdict], devices: ClaimShortage) -> Cause:
        if claims.left_over is not None:
            name = claims.left_over.metadata.name
            text = f"claim {name}, made for its extended resources by an earlier attempt, is left over"
            return Cause("ClaimLeftOver", text, "the scheduler, which deletes it before the next attempt")
        served = [v for v in verdicts if v.is_served]
        home = [v for v in served if not v.elsewhere]
        if claims.allocated and any(v.elsewhere for v in verdicts) and not any(v.may_run for v in verdicts):
            return self._elsewhere([v for v in verdicts if not v.elsewhere], verdicts)
        if not served or any(_stops(verdict) for verdict in verdicts):
            return devices.cause()
        rules = [reason for v in home for reason in v.rules]
        if not claims.uses:
            return self._unknown_resource() or Cause("NodeRules", f"no node takes it: {_counted(rules)}")
        names = ", ".join(v.node for v in home[:3]) + (f" and {len(home) - 3} more" if len(home) > 3 else "")
        text = f"its devices are on {names}, where it may not run: {_counted(rules)}"
        return Cause("NodeRules", text, f"room for the pod on {home[0].node}" if home else "")

    def _unknown_resource(self) -> Cause | None:
        """An extended resource that the pod asks for and nothing in the cluster has."""
        amounts, classes = demand_of(self.pod).amounts, self.snapshot.classes.values()
        offered = {name for node in self.snapshot.all(Node) for name in node.status.allocatable}
        asked = {name for name in amounts if "/" in name} - offered
        unknown = sorted(asked - ExtendedResources(classes).served(asked).keys())
        if not unknown or DeviceClass in self.snapshot.unreadable:
            return None
        name = unknown[0]
        meant = alike(name, {one.spec.extendedResourceName for one in classes if one.spec.extendedResourceName})
        hint = f", did you mean {meant}?" if meant else ""
        text = f"nothing serves {name}: no device class has that extendedResourceName, and no node has it{hint}"
        return Cause("NoSuchResource", text, f"a DeviceClass with extendedResourceName {name}, or a device plugin")

    def _elsewhere(self, reachable: Sequence[NodeVerdict], verdicts: Sequence[NodeVerdict]) -> Cause:
        claim = next(name for v in verdicts for name in v.elsewhere)
        others = self._other_consumers(claim)
        if not reachable:
            text = f'claim "{claim}" is allocated where no node can reach it'
            return Cause("ClaimElsewhere", text, f"deallocate claim {claim}: delete what uses it{others}")
        where = ", ".join(v.node for v in reachable[:3])
        rules = [reason for v in reachable for reason in v.rules]
        why = _counted(rules) if rules else "its other claims cannot be served there"
        text = f'claim "{claim}" is allocated on {where}, where it may not run: {why}'
        return Cause("ClaimElsewhere", text, f"room on {where}, or a claim of its own instead of {claim}{others}")

    def _other_consumers(self, name: str) -> str:
        claim = self.snapshot.get(ResourceClaim, name, self.namespace)
        users = [r.name for r in claim.status.reservedFor if r.uid != self.pod.metadata.uid] if claim else []
        return f" (used by {', '.join(users[:3])})" if users else ""

    def _unscheduled(self, fitting: Sequence[str]) -> Cause:
        """A node fits; so it is the scheduler that has not acted."""
        missing = self._missing_members()
        if missing:
            return missing
        names = ", ".join(fitting[:3]) + (f" and {len(fitting) - 3} more" if len(fitting) > 3 else "")
        tried = any(c.type == "PodScheduled" for c in self.pod.status.conditions)
        scheduler = self.pod.spec.schedulerName or "default-scheduler"
        if tried:
            return Cause("WillBeTried", f"it fits on {names} by now; the scheduler {scheduler} will try it again")
        text = f"it fits on {names}, but no scheduler has looked at it: does {scheduler} run?"
        return Cause("NoScheduler", text, f"a scheduler named {scheduler}")

    def _missing_members(self) -> Cause | None:
        gang = self.group.spec.schedulingPolicy.gang if self.group is not None else None
        if gang is None:
            return None
        members = [
            p
            for p in self.snapshot.all(Pod)
            if p.metadata.namespace == self.namespace
            and podclaims.group_name(p) == self.group_name
            and not podclaims.is_finished(p)
        ]
        if len(members) >= gang.minCount:
            return None
        text = f'podgroup "{self.group_name}" waits for {gang.minCount} pods, and {len(members)} exist'
        return Cause("GangIncomplete", text, f"{gang.minCount - len(members)} more pods of the group")

    def _event(self, *reasons: str) -> Event | None:
        found = [
            event
            for event in self.snapshot.all(Event)
            if event.reason in reasons
            and event.involvedObject.uid in ("", self.pod.metadata.uid)
            and event.involvedObject.name == self.pod.metadata.name
            and event.involvedObject.kind == "Pod"
        ]
        return max(found, key=lambda event: event.lastTimestamp or event.metadata.creationTimestamp or "", default=None)


def _not_ready(found: DeviceBinding) -> Cause:
    """The pod has its devices, and their driver has not made them ready."""
    device = f"device {found.device} of claim {found.claim}"
    if found.state is BindingState.FAILED:
        why = f": {found.message}" if found.message else ""
        text = f"{device} could not be made ready: condition {found.condition} ({found.reason}){why}"
        return Cause("DevicesFailed", text, "other devices; the scheduler deallocates the claim and tries again")
    text = f"{device} is not ready: its driver has not set condition {found.condition}"
    return Cause("DevicesNotReady", text, "the driver; after a while the scheduler gives up and tries other devices")


def missing_class(snapshot: Snapshot, claim: ResourceClaim) -> Cause | None:
    """The first device class of a claim that does not exist."""
    if DeviceClass in snapshot.unreadable:
        return None
    for request, name in classes_of(claim):
        if name not in snapshot.classes:
            return class_missing(snapshot, f"request {request} of claim {claim.metadata.name}", name)
    return None


def class_missing(snapshot: Snapshot, where: str, name: str) -> Cause:
    meant = alike(name, snapshot.classes)
    hint = f", did you mean {meant}?" if meant else ""
    return Cause("ClassMissing", f"{where}: device class {name} does not exist{hint}", f"DeviceClass {name}")


def _stops(verdict: NodeVerdict) -> bool:
    """Whether what is wrong on a node keeps the pod from every node: the scheduler comes there and gives up."""
    return verdict.may_run and verdict.problem is not None and not verdict.problem.node_only


def _counted(reasons: Iterable[NodeReason]) -> str:
    counts = Counter(map(wording.node_reason, reasons))
    return ", ".join(f"{count} {text}" for text, count in counts.most_common())
