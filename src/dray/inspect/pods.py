"""What a pod waits for, step by step: its group, its claims, their classes, devices, a node, the scheduler.

The first step that fails is the cause, whatever else may be wrong. Pure. Left out: why devices do not suffice
(`shortage`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.api import podclaims
from dray.api.podclaims import Use
from dray.api.quantity import Quantity
from dray.api.resources import BY_TYPE
from dray.api.types.core import Event, Node, Pod, PodResourceClaim, ResourceQuota
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup
from dray.api.usage import ZERO, names_for, usage_of
from dray.inspect.asking import asks_of
from dray.inspect.explanation import Cause, Holder, NodeVerdict
from dray.inspect.hardware import alike
from dray.inspect.placement import judge
from dray.inspect.shortage import Shortage
from dray.inspect.snapshot import Snapshot

_NODE_TROUBLE = ("FailedPrepareDynamicResources", "FailedCreatePodSandBox", "Failed", "BackOff")


@dataclass
class Claims:
    """The claims of a pod, as far as they exist."""

    pending: list[ResourceClaim] = field(default_factory=list)
    allocated: list[ResourceClaim] = field(default_factory=list)


class Finding(NamedTuple):
    """A cause with what was looked at to find it."""

    cause: Cause
    nodes: tuple[NodeVerdict, ...] = ()
    holders: tuple[Holder, ...] = ()
    waits: bool = True


class PodCase:
    """One pod, examined step by step."""

    def __init__(self, snapshot: Snapshot, pod: Pod) -> None:
        self.snapshot = snapshot
        self.pod = pod
        self.namespace = pod.metadata.namespace
        self.group_name = podclaims.group_name(pod)
        self.group = snapshot.get(PodGroup, self.group_name, self.namespace) if self.group_name else None
        self.claims = Claims()

    def finding(self) -> Finding:
        settled = self._settled()
        if settled is not None:
            return settled
        before = self._before_scheduling()
        if before is not None:
            return Finding(before)
        return self._placement()

    # It does not wait for a node

    def _settled(self) -> Finding | None:
        pod = self.pod
        if podclaims.is_finished(pod):
            return Finding(Cause("Finished", f"it is finished: {pod.status.phase}"), waits=False)
        if pod.metadata.deletionTimestamp is not None:
            return Finding(Cause("Deleting", "it is being deleted"), waits=False)
        if not pod.spec.nodeName:
            return None
        if pod.status.phase == "Running":
            return Finding(Cause("Running", f"it runs on {pod.spec.nodeName}"), waits=False)
        return Finding(self._on_node())

    def _on_node(self) -> Cause:
        """It has a node and does not run there yet."""
        node = self.pod.spec.nodeName
        trouble = self._event(*_NODE_TROUBLE)
        if trouble is not None:
            return Cause("NodeTrouble", f"node {node} cannot start it: {trouble.message}")
        if self.snapshot.get(Node, node) is None:
            return Cause("NodeMissing", f"its node {node} does not exist", f"node {node}, or a new pod")
        for use in podclaims.uses_of(self.pod, self.group):
            claim = self.snapshot.get(ResourceClaim, use.claim, self.namespace) if use.claim else None
            if use.needed and (claim is None or claim.status.allocation is None):
                text = f"node {node} waits for claim {use.claim or use.entry}, which is not allocated"
                return Cause("ClaimNotAllocated", text, "let the scheduler place the pod: do not set spec.nodeName")
            if claim is not None and not podclaims.may_use(claim, self.pod):
                text = f"node {node} waits: claim {claim.metadata.name} is not reserved for the pod"
                return Cause("NotReserved", text, "a reservation, which the claim controller adds where there is room")
        return Cause("Starting", f"node {node} has not started it yet")

    # Its claims

    def _before_scheduling(self) -> Cause | None:
        gates = [gate.name for gate in self.pod.spec.schedulingGates]
        if gates:
            return Cause("SchedulingGated", f"its scheduling gates hold it back: {', '.join(gates)}", "their removal")
        unknown = PodGroup in self.snapshot.unserved | self.snapshot.unreadable
        if self.group_name and self.group is None and not unknown:
            text = f'its podgroup "{self.group_name}" does not exist'
            return Cause("GroupMissing", text, f"PodGroup {self.namespace}/{self.group_name}")
        for entry in self.pod.spec.resourceClaims:
            problem = self._entry(entry)
            if problem is not None:
                return problem
        for claim in self.claims.pending:
            problem = missing_class(self.snapshot, claim)
            if problem is not None:
                return problem
        return None

    def _entry(self, entry: PodResourceClaim) -> Cause | None:
        """What is wrong with the claim of an entry before any node is looked at; notes the claim where nothing is."""
        use = podclaims.use_of(self.pod, entry, self.group)
        if not use.needed:
            return None
        if use.claim is None:
            return self._not_made(entry, use)
        claim = self.snapshot.get(ResourceClaim, use.claim, self.namespace)
        if claim is None:
            known = [c for c in self.snapshot.all(ResourceClaim) if c.metadata.namespace == self.namespace]
            meant = alike(use.claim, (c.metadata.name for c in known))
            hint = f", did you mean {meant}?" if meant and not use.generated else ""
            return Cause(
                "ClaimMissing",
                f'its resourceclaim "{use.claim}" does not exist{hint}',
                f"ResourceClaim {self.namespace}/{use.claim}",
            )
        return self._unusable(claim, use)

    def _unusable(self, claim: ResourceClaim, use: Use) -> Cause | None:
        name = claim.metadata.name
        owner = self.group if use.by_group and self.group is not None else self.pod
        if use.generated and not podclaims.is_controlled_by(claim, owner.metadata.uid):
            text = f'resourceclaim "{name}" was not created for it'
            return Cause("ForeignClaim", text, f"delete claim {name}, so that it is made anew")
        through = self.group if use.by_group else None
        joins = podclaims.consumer_to_add(claim, self.pod, through, podclaims.Sharing()) is not None
        if claim.metadata.deletionTimestamp is not None and (claim.status.allocation is None or joins):
            return Cause("ClaimDeleting", f'resourceclaim "{name}" is being deleted', "a new claim of that name")
        if claim.status.allocation is None:
            self.claims.pending.append(claim)
            return None
        if joins and len(claim.status.reservedFor) >= podclaims.RESERVATIONS_LIMIT:
            text = f'resourceclaim "{name}" is in use by {podclaims.RESERVATIONS_LIMIT} consumers, and no more can be added'
            return Cause("ClaimFull", text, "a claim of its own, or a claim for the whole group or workload")
        self.claims.allocated.append(claim)
        return None

    def _not_made(self, entry: PodResourceClaim, use: Use) -> Cause:
        """Its claim should come from a template and is not there."""
        shared = podclaims.group_entry(entry, self.group)
        if use.by_group and shared is None:
            text = f'entry {entry.name} names claim "{entry.podGroupResourceClaim}" of podgroup "{self.group_name}", which has no such claim'
            return Cause("GroupClaimMissing", text, f"an entry of that name in PodGroup {self.group_name}")
        wanted = (shared or entry).resourceClaimTemplateName or ""
        template = self.snapshot.get(ResourceClaimTemplate, wanted, self.namespace)
        whose = f'podgroup "{self.group_name}"' if use.by_group else "it"
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

    def _placement(self) -> Finding:
        verdicts = judge(self.snapshot, self.pod, self.claims.pending, self.claims.allocated)
        if not verdicts:
            return Finding(Cause("NoNodes", "the cluster has no nodes", "a node"))
        fitting = [verdict.node for verdict in verdicts if verdict.fits]
        if fitting:
            return Finding(self._unscheduled(fitting), verdicts)
        devices = Shortage(self.snapshot, self.claims.pending, verdicts)
        return Finding(self._cause(verdicts, devices), verdicts, devices.holders() if self.claims.pending else ())

    def _cause(self, verdicts: Sequence[NodeVerdict], devices: Shortage) -> Cause:
        served = [v for v in verdicts if v.reasons is None and not v.error]
        home = [v for v in served if not v.elsewhere]
        if self.claims.allocated and any(v.elsewhere for v in verdicts) and not any(v.may_run for v in verdicts):
            return self._elsewhere([v for v in verdicts if not v.elsewhere], verdicts)
        if not served:
            return devices.cause()
        rules = Counter(rule for v in home for rule in v.rules)
        if not self.claims.pending and not self.claims.allocated:
            return Cause("NodeRules", f"no node takes it: {_counted(rules)}")
        names = ", ".join(v.node for v in home[:3]) + (f" and {len(home) - 3} more" if len(home) > 3 else "")
        text = f"its devices are on {names}, where it may not run: {_counted(rules)}"
        return Cause("NodeRules", text, f"room for the pod on {home[0].node}" if home else "")

    def _elsewhere(self, reachable: Sequence[NodeVerdict], verdicts: Sequence[NodeVerdict]) -> Cause:
        claim = next(name for v in verdicts for name in v.elsewhere)
        others = self._other_consumers(claim)
        if not reachable:
            text = f'claim "{claim}" is allocated where no node can reach it'
            return Cause("ClaimElsewhere", text, f"deallocate claim {claim}: delete what uses it{others}")
        where = ", ".join(v.node for v in reachable[:3])
        rules = Counter(rule for v in reachable for rule in v.rules)
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


def missing_class(snapshot: Snapshot, claim: ResourceClaim) -> Cause | None:
    """The first device class of a claim that does not exist."""
    if DeviceClass in snapshot.unreadable:
        return None
    for ask in asks_of(claim, snapshot.classes).values():
        if ask.class_name not in snapshot.classes:
            meant = alike(ask.class_name, snapshot.classes)
            hint = f", did you mean {meant}?" if meant else ""
            text = f"{ask.label}: device class {ask.class_name} does not exist{hint}"
            return Cause("ClassMissing", text, f"DeviceClass {ask.class_name}")
    return None


def _counted(reasons: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
