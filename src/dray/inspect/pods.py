"""What a pod waits for, step by step: its group, its claims, their classes, devices, a node, the scheduler.

The first step that fails is reported as the cause, even if others would fail too. No I/O. Left out: why devices do
not suffice (`shortage`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from dray.api import podclaims
from dray.api.binding_conditions import BindingState, DeviceBinding, device_binding
from dray.api.claim_access import Knowledge, PodClaims, claims_of, classes_of
from dray.api.extended_resources import (
    IMPLICIT_PREFIX,
    ExtendedResources,
    extended_resource_claim,
    is_extended_resource_claim,
    may_be_asked,
    needs_of,
)
from dray.api.objects import Object
from dray.api.podclaims import Sharing
from dray.api.reasons import wording
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.claim_missing import ClaimMissing, TemplateMissing
from dray.api.reasons.causes.claim_use import (
    ClaimDeleting,
    ClaimElsewhere,
    ClaimFull,
    ClaimLeftOver,
    ClaimOutOfReach,
    ClaimsApart,
    ClaimUnusable,
    ForeignClaim,
)
from dray.api.reasons.causes.class_missing import ClassMissing
from dray.api.reasons.causes.deleting import IsDeleting
from dray.api.reasons.causes.device_binding import DevicesFailed, DevicesNotReady
from dray.api.reasons.causes.extended_resource import NoSuchResource
from dray.api.reasons.causes.node_rules import NodeRules, NoNodes
from dray.api.reasons.causes.not_created import ClaimRefused, NoClaimController
from dray.api.reasons.causes.pod_groups import GangIncomplete, GangUnplaced, GroupClaimMissing, GroupMissing
from dray.api.reasons.causes.scheduling import NoScheduler, SchedulerSays, SchedulingGated, WillBeTried
from dray.api.reasons.causes.settled import DevicesUnhealthy, IsRunning
from dray.api.reasons.claims import ClaimCode, ClaimProblem
from dray.api.reasons.nodes import NodeReason, NodeVerdict
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.inspect.explanation import Holder
from dray.inspect.hardware import alike
from dray.inspect.on_node import PodOnNode, latest_event
from dray.inspect.placement import Allowance, gang_refusal, judge
from dray.inspect.quotas import quota_cause
from dray.inspect.shortage import ClaimShortage
from dray.inspect.snapshot import Snapshot
from dray.verdicts.demand import demand_of

DEFAULT_SCHEDULER = "default-scheduler"
_READY = BindingState.READY
T = TypeVar("T", bound=Object)


class CauseFinding(NamedTuple):
    """A cause with the nodes and holders that were examined to find it, and whether the object waits."""

    cause: Cause
    nodes: tuple[NodeVerdict, ...] = ()
    holders: tuple[Holder, ...] = ()
    waits: bool = True


class PodCase:
    """Examines one pod step by step."""

    def __init__(self, snapshot: Snapshot, pod: Pod, allowance: Allowance) -> None:
        self.snapshot = snapshot
        self.pod = pod
        self.allowance = allowance
        self.namespace = pod.metadata.namespace
        self.group_name = podclaims.group_name(pod)
        self.group = snapshot.group_of(pod)
        unknown = snapshot.unserved | snapshot.unreadable
        self.known = Knowledge(
            Sharing(groups=PodGroup not in unknown),
            lambda name: DeviceClass in unknown or name in snapshot.classes,
            labels_of=lambda name: node.metadata.labels if (node := snapshot.get(Node, name)) is not None else {},
            is_lost=lambda pod, claim: device_binding(claim).state is BindingState.FAILED,
        )

    def finding(self) -> CauseFinding:
        """Return the first cause for which the pod waits, or the state of a pod that does not wait."""
        settled = self._settled()
        if settled is not None:
            return settled
        gates = tuple(gate.name for gate in self.pod.spec.schedulingGates)
        if gates:
            return CauseFinding(SchedulingGated(gates))
        claims = claims_of(self.pod, self.group, self._claim, self.known)
        if isinstance(claims, PodClaims):
            extended = filter(
                is_extended_resource_claim, self.snapshot.all(ResourceClaim) if may_be_asked(self.pod) else ()
            )
            own = (claim for claim in extended if podclaims.is_controlled_by(claim, self.pod.metadata.uid))
            claims.left_over = next(own, None)
            return self._placement(claims)
        return CauseFinding(self._unusable(claims))

    def places(self) -> list[str]:
        """Return the nodes where the scheduler would place the pod now; empty if anything prevents that.

        Empty also for a pod with a node or scheduling gates, and if a problem would make the scheduler give up on all
        nodes.
        """
        if self.pod.spec.nodeName or self.pod.spec.schedulingGates or self._missing_members() is not None:
            return []
        claims = claims_of(self.pod, self.group, self._claim, self.known)
        if not isinstance(claims, PodClaims):
            return []
        if any(device_binding(claim).state is not _READY for claim in claims.allocated):
            return []
        verdicts = judge(self.snapshot, self.pod, claims, self.allowance.nodes)
        return [] if any(map(_stops, verdicts)) else [verdict.node for verdict in verdicts if verdict.fits]

    def _claim(self, name: str) -> ResourceClaim | None:
        return self.snapshot.get(ResourceClaim, name, self.namespace)

    # Pods that do not wait for a node

    def _settled(self) -> CauseFinding | None:
        """Return the finding for a pod that has a node, has ended or is being deleted; None for other pods."""
        pod = self.pod
        placed = PodOnNode(self.snapshot, pod, self.group, self.known)
        if pod.metadata.deletionTimestamp is not None:
            cause = placed.deleting()
            return CauseFinding(cause, waits=not isinstance(cause, IsDeleting))
        if podclaims.is_finished(pod):
            return CauseFinding(placed.finished(), waits=False)
        if not pod.spec.nodeName:
            return None
        if pod.status.phase == "Running":
            cause = placed.running()
            return CauseFinding(cause, waits=not isinstance(cause, IsRunning | DevicesUnhealthy))
        return CauseFinding(placed.not_running())

    # Its claims

    def _unusable(self, problem: ClaimProblem) -> Cause:
        """Return the cause for a claim problem that keeps the pod from every node."""
        name, group = problem.claim, problem.group
        match problem.code:
            case ClaimCode.GROUP_MISSING:
                known = (g.metadata.name for g in self._here(PodGroup))
                return GroupMissing(group, alike(group, known))
            case ClaimCode.GROUP_LACKS_CLAIM:
                return GroupClaimMissing(problem.entry, problem.subject, group)
            case ClaimCode.NOT_CREATED:
                return self._not_made(problem)
            case ClaimCode.NOT_FOUND:
                return self._not_found(problem)
            case ClaimCode.NOT_FOR_POD | ClaimCode.NOT_FOR_GROUP:
                return ForeignClaim(name)
            case ClaimCode.DELETING:
                return ClaimDeleting(name, self._other_consumers(name))
            case ClaimCode.CLASS_MISSING:
                return class_missing(self.snapshot, self._claim(name), name, problem.request, problem.subject)
            case ClaimCode.FULL:
                return ClaimFull(name, problem.limit)
            case _:
                return ClaimUnusable(name, wording.claim_problem(problem))

    def _here(self, type_: type[T]) -> list[T]:
        """Return the objects of this type in the pod's namespace."""
        return [one for one in self.snapshot.all(type_) if one.metadata.namespace == self.namespace]

    def _not_found(self, problem: ClaimProblem) -> Cause:
        """Return the cause for a missing claim, with a similar name or a template of that name."""
        named = any(entry.resourceClaimName == problem.claim for entry in self.pod.spec.resourceClaims)
        if not named:
            return ClaimMissing(problem.claim)
        known = (c.metadata.name for c in self._here(ResourceClaim))
        other = self._of_kind(ResourceClaimTemplate, problem.claim)
        return ClaimMissing(problem.claim, alike(problem.claim, known), other)

    def _of_kind(self, type_: type[T], name: str) -> str:
        """Return the kind if the pod's namespace has an object of this kind and name; otherwise an empty text."""
        return type_.__name__ if self.snapshot.get(type_, name, self.namespace) is not None else ""

    def _not_made(self, problem: ClaimProblem) -> Cause:
        """Return why a claim was not created from its template."""
        entry = next(entry for entry in self.pod.spec.resourceClaims if entry.name == problem.entry)
        shared = podclaims.group_entry(entry, self.group)
        wanted = (shared or entry).resourceClaimTemplateName or ""
        template = self.snapshot.get(ResourceClaimTemplate, wanted, self.namespace)
        if template is None:
            known = (t.metadata.name for t in self._here(ResourceClaimTemplate))
            other = self._of_kind(ResourceClaim, wanted)
            return TemplateMissing(wanted, alike(wanted, known), other)
        quota = quota_cause(self.snapshot, self.namespace, ResourceClaim(spec=template.spec.spec))
        if quota is not None:
            return quota
        refused = latest_event(self.snapshot, "Pod", self.pod, "FailedResourceClaimCreation")
        if refused is not None:
            return ClaimRefused(refused.message)
        group = self.group_name if shared is not None else ""
        return NoClaimController(entry.name, group)

    # Nodes

    def _placement(self, claims: PodClaims) -> CauseFinding:
        """Return the cause found by examining all nodes."""
        pending = [*claims.pending, *self._extended_resource_claims()]
        if self.snapshot.unreadable & ({Node, ResourceSlice, DeviceClass} if pending else {Node}):
            return CauseFinding(self._told())
        verdicts = tuple(judge(self.snapshot, self.pod, claims, self.allowance.nodes))
        bindings = [found for claim in claims.allocated if (found := device_binding(claim)).state is not _READY]
        failed = next((found for found in bindings if found.state is BindingState.FAILED), None)
        if claims.left_over is not None and (found := device_binding(claims.left_over)).state is not _READY:
            failed = failed or found  # the scheduler that created the claim waits for its devices
        if failed is not None:
            return CauseFinding(_not_ready(failed), verdicts)
        if not verdicts:
            return CauseFinding(NoNodes())
        fitting = [verdict.node for verdict in verdicts if verdict.fits]
        if fitting and not any(_stops(verdict) for verdict in verdicts):
            if self.snapshot.hides_use and not bindings:
                return CauseFinding(self._told())
            cause = _not_ready(bindings[0]) if bindings else self._unscheduled(fitting)
            return CauseFinding(cause, verdicts)
        devices = ClaimShortage(self.snapshot, pending, verdicts, self.allowance)
        cause = self._cause(claims, verdicts, devices)
        return CauseFinding(cause, verdicts, devices.holders() if pending else ())

    def _told(self) -> Cause:
        """Return the scheduler's message from the pod's condition, for users who cannot read the relevant objects.

        The message is empty if the scheduler has said nothing.
        """
        said = next((c.message for c in self.pod.status.conditions if c.type == "PodScheduled" and c.message), "")
        return SchedulerSays(said)

    def _extended_resource_claims(self) -> list[ResourceClaim]:
        """Return the claim for the pod's extended resources that device classes can serve; empty if there are none."""
        served = ExtendedResources(self.snapshot.classes.values()).served(demand_of(self.pod).extended)
        return [extended_resource_claim(self.pod, needs_of(self.pod, served))] if served else []

    def _cause(self, claims: PodClaims, verdicts: Sequence[NodeVerdict], devices: ClaimShortage) -> Cause:
        """Return the cause if no node fits: an allocated claim elsewhere, too few devices, or rules of nodes."""
        if claims.left_over is not None:
            return ClaimLeftOver(claims.left_over.metadata.name)
        served = [v for v in verdicts if v.is_served]
        home = [v for v in served if not v.elsewhere]
        if claims.allocated and any(v.elsewhere for v in verdicts) and not any(v.may_run for v in verdicts):
            return self._elsewhere([v for v in verdicts if not v.elsewhere], verdicts)
        if not served or any(_stops(verdict) for verdict in verdicts):
            return devices.cause()
        refused = _counted(reason for v in home for reason in v.rules)
        if not claims.uses:
            return self._unknown_resource() or NodeRules(refused=refused)
        return NodeRules(tuple(v.node for v in home), refused)

    def _unknown_resource(self) -> Cause | None:
        """Return the cause if the pod requests an extended resource that nothing in the cluster provides, or None.

        Node resources and those of device classes are known. None if device classes may not be read.
        """
        amounts, classes = demand_of(self.pod).amounts, self.snapshot.classes.values()
        offered = {name for node in self.snapshot.all(Node) for name in node.status.allocatable}
        asked = {name for name in amounts if "/" in name} - offered
        unknown = sorted(asked - ExtendedResources(classes).served(asked).keys())
        if not unknown or DeviceClass in self.snapshot.unreadable:
            return None
        if unknown[0].startswith(IMPLICIT_PREFIX):
            meant = alike(unknown[0].removeprefix(IMPLICIT_PREFIX), self.snapshot.classes)
            return NoSuchResource(unknown[0], meant and f"{IMPLICIT_PREFIX}{meant}")
        known = {one.spec.extendedResourceName for one in classes if one.spec.extendedResourceName} | {
            name for name in offered if "/" in name
        }
        return NoSuchResource(unknown[0], alike(unknown[0], known))

    def _elsewhere(self, reachable: Sequence[NodeVerdict], verdicts: Sequence[NodeVerdict]) -> Cause:
        """Return the cause if a claim is allocated on nodes that the pod cannot use."""
        claim = next(name for v in verdicts for name in v.elsewhere)
        users = self._other_consumers(claim)
        if not reachable:
            named = dict.fromkeys(name for v in verdicts for name in v.elsewhere)
            if all(any(name not in v.elsewhere for v in verdicts) for name in named):
                return ClaimsApart(tuple(named))
            return ClaimOutOfReach(claim, users)
        refused = _counted(reason for v in reachable for reason in v.rules)
        return ClaimElsewhere(claim, tuple(v.node for v in reachable), refused, users)

    def _other_consumers(self, name: str) -> tuple[str, ...]:
        """Return the names of a claim's other consumers.

        Empty if the claim does not exist.
        """
        claim = self.snapshot.get(ResourceClaim, name, self.namespace)
        reserved = claim.status.reservedFor if claim is not None else ()
        return tuple(one.name for one in reserved if one.uid != self.pod.metadata.uid)

    def _unscheduled(self, fitting: Sequence[str]) -> Cause:
        """Return why the scheduler has not placed a pod although a node fits."""
        missing = self._missing_group() or self._missing_members() or self._unplaced_gang()
        if missing:
            return missing
        tried = any(c.type == "PodScheduled" for c in self.pod.status.conditions)
        scheduler = self.pod.spec.schedulerName or DEFAULT_SCHEDULER
        return WillBeTried(tuple(fitting), scheduler) if tried else NoScheduler(tuple(fitting), scheduler)

    def _missing_group(self) -> Cause | None:
        """Return the cause if the pod's PodGroup does not exist, or None.

        None also if the pod has no group, or groups are not served or may not be read.
        """
        is_known = self.group is not None or PodGroup in self.snapshot.unreadable | self.snapshot.unserved
        if is_known or not self.group_name:
            return None
        return GroupMissing(self.group_name)

    def _missing_members(self) -> Cause | None:
        """Return the cause if the pod's gang has fewer pods than minCount, or None.

        Finished pods do not count. None if the group is not a gang or does not exist.
        """
        gang = self.group.spec.schedulingPolicy.gang if self.group is not None else None
        if gang is None:
            return None
        members = [
            p for p in self._here(Pod) if podclaims.group_name(p) == self.group_name and not podclaims.is_finished(p)
        ]
        if len(members) >= gang.minCount:
            return None
        return GangIncomplete(self.group_name, len(members), gang.minCount)

    def fits(self) -> bool:
        """Whether the scheduler would place the pod now, together with its gang if it has one."""
        if not self.places():
            return False
        gang = self.group.spec.schedulingPolicy.gang if self.group is not None else None
        if self.group is None or gang is None:
            return True
        return gang_refusal(self.snapshot, self.pod, self.group, is_hasty=True) is None

    def _unplaced_gang(self) -> Cause | None:
        """Return the cause if the pod fits alone but its gang cannot be placed as a whole, or None."""
        gang = self.group.spec.schedulingPolicy.gang if self.group is not None else None
        refused = gang_refusal(self.snapshot, self.pod, self.group) if self.group is not None and gang else None
        if gang is None or refused is None:
            return None
        told = wording.unschedulable(refused.why)
        found = refused.why.group.found if refused.why.group is not None else 0
        return GangUnplaced(self.group_name, found, gang.minCount, told)


def _not_ready(found: DeviceBinding) -> Cause:
    """Return the cause for an allocated device that failed or is not ready yet."""
    if found.state is BindingState.FAILED:
        return DevicesFailed(found.device, found.claim, found.condition, found.reason, found.message)
    return DevicesNotReady(found.device, found.claim, found.condition)


def missing_class(snapshot: Snapshot, claim: ResourceClaim) -> Cause | None:
    """Return the cause for the first device class of a claim that does not exist, or None.

    None also if device classes may not be read.
    """
    if DeviceClass in snapshot.unreadable:
        return None
    for request, name in classes_of(claim):
        if name not in snapshot.classes:
            return class_missing(snapshot, claim, claim.metadata.name, request, name)
    return None


def class_missing(snapshot: Snapshot, found: ResourceClaim | None, claim: str, request: str, name: str) -> Cause:
    """Return the cause for a missing device class, with a similar class name."""
    template = snapshot.template_of(found) if found is not None else ""
    return ClassMissing(claim, request, name, alike(name, snapshot.classes), template)


def _stops(verdict: NodeVerdict) -> bool:
    """Whether the problem on this node would make the scheduler give up on the pod for all nodes."""
    return verdict.may_run and verdict.problem is not None and not verdict.problem.node_only


def _counted(reasons: Iterable[NodeReason]) -> tuple[tuple[NodeReason, int], ...]:
    """Return the distinct reasons with their counts, most common first."""
    return tuple(Counter(reasons).most_common())
