"""Creates claims from templates, removes reservations of gone consumers, and deallocates or deletes unused claims.

The queue has four kinds of keys: a pod or a group, for which claims are created and recorded; a claim, whose
reservations are checked; and a claim that was left: it is allocated, lists no consumer, and a pod gave its
reservation back or has ended. The claim itself does not show that it was ever used, and an allocation that was never
used is not freed here. Nothing else is remembered between runs: the name of a generated claim follows from its owner
(`generated`), and `upkeep` decides what a claim needs from the facts (`claim_facts`). Left out: keeping groups alive
(`groups`), and removing the reservation of a workload, which is its owner's task (for jobs: `jobclaims`).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import starmap
from typing import Literal, NamedTuple

from msgspec.structs import replace

from dray.api import podclaims
from dray.api.claim_access import Knowledge, Purpose, claim_problem
from dray.api.claim_lifecycle import IDLE, has_devices, state_of
from dray.api.errors import NotFound
from dray.api.podclaims import Sharing, Use
from dray.api.types.core import Node, Pod, PodResourceClaim, PodResourceClaimStatus, PodStatus
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup, PodGroupResourceClaimStatus, PodGroupStatus
from dray.client import Deltas, Informer, change_status
from dray.client.consumers import ClaimConsumers
from dray.controllers.claim_facts import ClaimFacts
from dray.controllers.context import ControllerContext
from dray.controllers.metrics import claims_changed
from dray.controllers.nodes import BY_NODE, node_named
from dray.controllers.references import BY_CONSUMER, CHECK_SECONDS, consumers_named
from dray.controllers.templates import ClaimMaker
from dray.controllers.upkeep import Upkeep, upkeep

WORKERS = 16
BY_TEMPLATE = "by template"

ReconcileKind = Literal["pod", "group", "claim", "left"]


class ClaimKey(NamedTuple):
    kind: ReconcileKind
    namespace: str
    name: str


class ClaimController:
    """Keeps claims up to date with the pods and groups that use them."""

    def __init__(self, context: ControllerContext) -> None:
        informers = context.informers
        self._client = context.client
        self._known = Knowledge(Sharing.of(context.gates), labels_of=self._labels_of)
        sharing = self._known.sharing
        self._consumers = ClaimConsumers(informers, groups=sharing.groups)
        self._claim_facts = ClaimFacts(context, self._consumers, sharing)
        self._controller = context.controller("resource_claim", self._reconcile, WORKERS)
        self.run = self._controller.run
        self._pods = informers.informer(Pod)
        self._claims = informers.informer(ResourceClaim)
        self._nodes = informers.informer(Node)
        templates = informers.informer(ResourceClaimTemplate)
        self._maker = ClaimMaker(context.client, self._claims, templates, context.recorder)
        self._pods.add_index(BY_TEMPLATE, _templates_used)
        self._pods.add_index(BY_NODE, node_named)
        self._claims.add_index(BY_CONSUMER, consumers_named)
        self._groups: Informer[PodGroup] | None = None
        if sharing.groups:
            self._groups = informers.informer(PodGroup)
            self._groups.add_index(BY_TEMPLATE, _templates_used)
            self._groups.add_handler(self._on_groups)
        self._pods.add_handler(self._on_pods)
        self._claims.add_handler(self._on_claims)
        self._nodes.add_handler(self._on_nodes)
        templates.add_handler(self._on_templates)

    # -- event handlers

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            pod = new or old
            assert pod is not None
            if new is not None and new.spec.resourceClaims and self._pod_matters(old, new):
                self._add("pod", new)
            if old is not None and _has_ended(old, new):
                self._look_at_claims_of(pod)

    def _pod_matters(self, old: Pod | None, new: Pod) -> bool:
        """Whether a changed pod may need work.

        It does if it is new (`old` is None), lost a recorded claim, or got a node without reservations.
        """
        if old is None:
            return True
        recorded = old.status.resourceClaimStatuses
        if recorded and recorded != new.status.resourceClaimStatuses:
            return True
        return old.spec.nodeName != new.spec.nodeName and not self._is_reserved(new)

    def _is_reserved(self, pod: Pod) -> bool:
        """Whether all claims of a pod list the pod, according to the informers' copies.

        Returns False if a claim is not recorded for the pod or not known yet, True for a pod without claims.
        """
        for use in self._consumers.uses(pod):
            claim = self._claims.get(pod.metadata.namespace, use.claim or "")
            if claim is None or not podclaims.is_reserved_for(claim, pod.metadata.uid):
                return False
        return True

    def _on_nodes(self, deltas: Deltas[Node]) -> None:
        """Queue the unreserved pods of new or relabelled nodes, because allocated devices may now be usable there."""
        for old, new in deltas:
            if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
                self._add_unreserved(self._pods.by_index(BY_NODE, new.metadata.name))

    def _look_at_claims_of(self, pod: Pod) -> None:
        """Queue the claims of a pod that has ended or was deleted."""
        namespace, group = pod.metadata.namespace, podclaims.group_name(pod)
        # claims may list the pod although it has no entry for them
        self._look_at(self._claims.by_index(BY_CONSUMER, pod.metadata.uid))
        for use in self._consumers.uses(pod):
            claim = self._claims.get(namespace, use.claim) if use.claim else None
            if claim is not None:
                self._add("left" if _is_idle(claim) else "claim", claim)
            elif use.by_group:  # its group was deleted too early, and with it the recorded claim name
                self._look_at(self._claims.by_index(BY_CONSUMER, f"{namespace}/{group}"))

    def _on_groups(self, deltas: Deltas[PodGroup]) -> None:
        for old, new in deltas:
            group = new or old
            assert group is not None
            if new is None or podclaims.is_let_go(new):
                self._look_at(self._claims.by_index(BY_CONSUMER, group.metadata.uid))
            elif old is None or old.status.resourceClaimStatuses != new.status.resourceClaimStatuses:
                self._add("group", new)
            if new is None or old is None:
                self._add_members(group.metadata.namespace, group.metadata.name)

    def _on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        claims_changed(deltas)
        for old, new in deltas:
            claim = new or old
            assert claim is not None
            if new is not None and self._was_left(old, new):
                self._add("left", new)
            elif new is not None and _claim_matters(old, new) and not self._claim_facts.is_in_order(new):
                self._add("claim", new)
            if new is None or (old is None and podclaims.made_for(new, "Pod") is None):
                # Pods may have lost the claim or may wait for it. A pod for which the claim was made learns of it
                # elsewhere.
                self._tell_owner(claim)
            elif has_devices(new) and (not has_devices(old) or _lost_reservations(old, new)):
                # There is now an allocation to reserve, or a failed binding took a reservation back.
                self._add_unreserved(self._consumers.consumers(claim.metadata.namespace, claim.metadata.name))

    def _was_left(self, old: ResourceClaim | None, new: ResourceClaim) -> bool:
        """Whether the last reservations were removed and the devices kept, as after a failed binding or by a person.

        Reservations of kinds that this controller does not judge do not count, as they may stand for pods unknown
        here.
        """
        before = old.status.reservedFor if old is not None else ()
        is_ours = all(podclaims.is_pod(r) or self._claim_facts.is_judged(r) for r in before)
        return bool(before) and is_ours and _is_idle(new)

    def _tell_owner(self, claim: ResourceClaim) -> None:
        """Queue the pods and the group that use a claim."""
        namespace = claim.metadata.namespace
        for pod in self._consumers.consumers(namespace, claim.metadata.name):
            self._add("pod", pod)
        group = podclaims.made_for(claim, "PodGroup")
        if group is not None and self._groups is not None:
            self._controller.queue.add(ClaimKey("group", namespace, group.name))
            self._add_members(namespace, group.name)

    def _on_templates(self, deltas: Deltas[ResourceClaimTemplate]) -> None:
        for _, new in deltas:
            if new is not None:
                key = f"{new.metadata.namespace}/{new.metadata.name}"
                for pod in self._pods.by_index(BY_TEMPLATE, key):
                    self._add("pod", pod)
                for group in self._groups.by_index(BY_TEMPLATE, key) if self._groups is not None else ():
                    self._add("group", group)

    def _add(self, kind: ReconcileKind, obj: Pod | PodGroup | ResourceClaim) -> None:
        self._controller.queue.add(ClaimKey(kind, obj.metadata.namespace, obj.metadata.name))

    def _add_unreserved(self, pods: Iterable[Pod]) -> None:
        """Queue those pods that have a node but lack some of their reservations."""
        for pod in pods:
            if pod.spec.nodeName and not podclaims.is_finished(pod) and not self._is_reserved(pod):
                self._add("pod", pod)

    def _add_members(self, namespace: str, group: str) -> None:
        for pod in self._consumers.members(namespace, group):
            if pod.spec.resourceClaims:
                self._add("pod", pod)

    def _look_at(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            self._add("claim", claim)

    async def _reconcile(self, key: ClaimKey) -> float | None:
        if key.kind == "pod":
            pod = self._pods.get(key.namespace, key.name)
            if pod is not None:
                await self._pod(pod)
        elif key.kind == "group":
            group = self._groups.get(key.namespace, key.name) if self._groups is not None else None
            if group is not None:
                await self._group(group)
        else:
            claim = self._claims.get(key.namespace, key.name)
            with suppress(NotFound):  # deleted meanwhile
                return await self._claim(claim, left=key.kind == "left") if claim is not None else None
        return None

    # -- groups

    async def _group(self, group: PodGroup) -> None:
        """Create the claims of a group and record their names in its status.

        A group that is being deleted gets no claims. Only entries with a template do.
        """
        if group.metadata.deletionTimestamp is not None:
            return
        recorded = {status.name: status.resourceClaimName for status in group.status.resourceClaimStatuses}
        made: dict[str, str] = {}
        for entry in group.spec.resourceClaims:
            if entry.resourceClaimTemplateName is not None:
                name = await self._maker.ensure(group, entry.name, entry.resourceClaimTemplateName)
                if recorded.get(entry.name) != name:
                    made[entry.name] = name
        if made:
            await self._record(group, made)

    # -- pods

    async def _pod(self, pod: Pod) -> None:
        if podclaims.is_finished(pod) or pod.metadata.deletionTimestamp is not None:
            return
        if pod.spec.nodeName and self._is_reserved(pod):  # the reservations arrived after the pod's node
            return
        group = self._consumers.group_of(pod)
        if group is None and self._known.sharing.groups and podclaims.group_name(pod):
            return  # without the group it is unknown whose claims its entries mean
        made: dict[str, str] = {}
        for entry in pod.spec.resourceClaims:
            name = await self._name_for(pod, entry, group)
            if name:
                made[entry.name] = name
        if made:
            await self._record(pod, made)
        if pod.spec.nodeName:
            await self._reserve_placed(pod, group)

    async def _name_for(self, pod: Pod, entry: PodResourceClaim, group: PodGroup | None) -> str:
        """Return the name of the claim to record for a pod's entry, or "" if there is nothing new to record.

        "" also applies to an entry without a template and to an entry that needs no claim.
        """
        use = podclaims.use_of(pod, entry, group)
        shared = podclaims.group_entry(entry, group)
        source = shared or entry
        if source.resourceClaimTemplateName is None or not use.needed:
            return ""
        if shared is not None and group is not None:
            if pod.spec.nodeName and use.claim:
                return ""  # the pod was placed with the claim that it has
            name = self._maker.made(group, shared.name)
        elif self._is_made_for_its_group(pod, use):
            return ""  # made while groups were enabled
        else:
            name = await self._maker.ensure(pod, entry.name, source.resourceClaimTemplateName)
        return name if name != use.claim else ""

    def _is_made_for_its_group(self, pod: Pod, use: Use) -> bool:
        """Whether groups are disabled, but the recorded claim was made for the pod's group.

        Returns False if no claim is recorded or the claim is unknown.
        """
        claim = self._claims.get(pod.metadata.namespace, use.claim) if use.claim else None
        if claim is None or self._known.sharing.groups:
            return False
        return podclaims.is_made_for_group(claim, podclaims.group_name(pod))

    async def _record(self, owner: Pod | PodGroup, made: dict[str, str]) -> None:
        with suppress(NotFound):  # deleted meanwhile
            await change_status(self._client, owner, lambda owner: _with_claims(owner, made))

    async def _reserve_placed(self, pod: Pod, group: PodGroup | None) -> None:
        """Add the reservations of a pod that got its node without the scheduler, where that is possible."""
        for use in podclaims.uses_of(pod, group):
            claim = self._claims.get(pod.metadata.namespace, use.claim) if use.claim else None
            if claim is None or claim_problem(Purpose.RESERVE, pod, use, claim, group, self._known) is not None:
                continue  # it cannot start on this node, or not yet
            if podclaims.is_open(claim, self._known.sharing):
                continue  # the pod has a node, which keeps the devices from being freed
            if any(not podclaims.is_pod(r) and not self._claim_facts.is_judged(r) for r in claim.status.reservedFor):
                continue  # its pods are covered by a disabled feature, and there may be thousands
            is_own = podclaims.is_controlled_by(claim, pod.metadata.uid)  # made while groups were disabled
            through = group if use.by_group and not is_own else None
            consumer = podclaims.consumer_to_add(claim, pod, through, self._known.sharing)
            if consumer is not None:
                reserved = replace(claim.status, reservedFor=(*claim.status.reservedFor, consumer))
                await self._client.patch_status(claim, reserved)

    def _labels_of(self, name: str) -> dict[str, str]:
        node = self._nodes.get("", name)
        return node.metadata.labels if node is not None else {}

    # -- claims

    async def _claim(self, claim: ResourceClaim, *, left: bool) -> float | None:
        facts = await self._claim_facts.facts(claim, left=left)
        await self._carry_out(claim, upkeep(claim, facts))
        kept = [r for r in claim.status.reservedFor if r.uid not in facts.gone]
        return CHECK_SECONDS if any(self._claim_facts.is_judged(r) for r in kept) else None

    async def _carry_out(self, claim: ResourceClaim, todo: Upkeep) -> None:
        name, namespace = claim.metadata.name, claim.metadata.namespace
        if todo.status is not None:
            claim = await self._client.patch_status(claim, todo.status)
        if todo.finalizers is not None:
            meta = claim.metadata
            said = {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "finalizers": todo.finalizers}
            claim = await self._client.patch(ResourceClaim, name, {"metadata": said}, namespace)
        if todo.delete and claim.metadata.deletionTimestamp is None:
            await self._client.delete(
                ResourceClaim, name, namespace, uid=claim.metadata.uid, resource_version=claim.metadata.resourceVersion
            )


def _has_ended(old: Pod, new: Pod | None) -> bool:
    """Whether a pod has just ended, or had ended before its claims were recorded.

    `new` is None if the pod was deleted.
    """
    if not podclaims.will_never_run(old):
        return new is None or podclaims.will_never_run(new)
    return new is not None and old.status.resourceClaimStatuses != new.status.resourceClaimStatuses


def _with_claims(owner: Pod | PodGroup, made: dict[str, str]) -> PodStatus | PodGroupStatus:
    """Return the owner's status with the names of created claims added to those already recorded.

    `made` maps names of entries to names of claims.
    """
    names = {status.name: status.resourceClaimName for status in owner.status.resourceClaimStatuses} | made
    if isinstance(owner, Pod):
        return replace(owner.status, resourceClaimStatuses=tuple(starmap(PodResourceClaimStatus, names.items())))
    return replace(owner.status, resourceClaimStatuses=tuple(starmap(PodGroupResourceClaimStatus, names.items())))


def _claim_matters(old: ResourceClaim | None, new: ResourceClaim) -> bool:
    """Whether a changed claim may need work: the claim has or had reservations, is new, or is being deleted.

    `old` is None for a new claim.
    """
    if new.status.reservedFor or new.metadata.deletionTimestamp is not None:
        return True
    return old is None or bool(old.status.reservedFor)


def _lost_reservations(old: ResourceClaim | None, new: ResourceClaim) -> bool:
    return old is not None and len(new.status.reservedFor) < len(old.status.reservedFor)


def _templates_used(obj: Pod | PodGroup) -> list[str]:
    return [
        f"{obj.metadata.namespace}/{entry.resourceClaimTemplateName}"
        for entry in obj.spec.resourceClaims
        if entry.resourceClaimTemplateName
    ]


def _is_idle(claim: ResourceClaim) -> bool:
    """Whether a claim is allocated but lists no consumer."""
    return state_of(claim) in IDLE
