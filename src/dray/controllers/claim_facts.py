"""Finds out facts about the consumers of a claim: which are gone, which are missing, and whether a pod relies on
the claim.

The informers' copies are read first; before a consumer counts as gone, the server is asked. `upkeep` decides what
follows from the facts.
"""

from __future__ import annotations

from dray.api import podclaims
from dray.api.errors import ApiError, NotFound
from dray.api.podclaims import Sharing, Use
from dray.api.types.core import Namespace, Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference
from dray.api.types.scheduling import PodGroup
from dray.client.consumers import ClaimConsumers
from dray.controllers.context import ControllerContext
from dray.controllers.references import References
from dray.controllers.upkeep import ConsumerFacts


class ClaimFacts:
    """Finds facts about claims. References of a kind whose gate is off are kept while their namespace exists."""

    def __init__(self, context: ControllerContext, consumers: ClaimConsumers, sharing: Sharing) -> None:
        self._client = context.client
        self._consumers = consumers
        self._sharing = sharing
        self._references = References(context.client, context.clock)
        self._pods = context.informers.informer(Pod)
        self._groups = context.informers.informer(PodGroup) if sharing.groups else None

    def is_in_order(self, claim: ResourceClaim) -> bool:
        """Whether the informers' copies alone show that a claim needs no work, which is so after most changes.

        Returns False if the claim is being deleted, if a reservation names anything but a known pod that may still
        run, or if the pod that the claim was generated for is unknown or will never run.
        """
        if claim.metadata.deletionTimestamp is not None or self._is_for_workload(claim):
            return False
        namespace = claim.metadata.namespace
        for reference in claim.status.reservedFor:
            pod = self._known_pod(namespace, reference.name, reference.uid)
            if pod is None or not podclaims.is_pod(reference) or podclaims.will_never_run(pod):
                return False
            if self._groups is not None and podclaims.group_name(pod):
                return False
        owner = podclaims.made_for(claim, "Pod")
        pod = self._known_pod(namespace, owner.name, owner.uid) if owner is not None else None
        return owner is None or (pod is not None and not podclaims.will_never_run(pod))

    async def facts(self, claim: ResourceClaim, *, left: bool) -> ConsumerFacts:
        """Return the facts about a claim's consumers.

        `left` says that a consumer which the claim does not list has just ended or given the claim up.
        """
        references = claim.status.reservedFor
        finished = {r.uid for r in references if podclaims.is_pod(r) and not await self._still_uses(claim, r)}
        lost = [r for r in references if await self._is_lost(claim, r)]
        gone = finished | {r.uid for r in lost}
        remaining = [r for r in references if r.uid not in gone]
        shared = self._is_for_workload(claim)
        abandoned = not references and claim.status.allocation is not None and (shared or left)
        doubtful = bool(lost) or abandoned or (shared and not remaining)
        occupied = doubtful and await self._is_occupied(claim, remaining, lost)
        if occupied:
            gone = finished
        kept = [r for r in references if r.uid not in gone]
        missing = self._forgotten_groups(claim, kept)
        return ConsumerFacts(
            gone=gone,
            owner_done=await self._owner_is_done(claim),
            shared=shared,
            abandoned=abandoned,
            occupied=occupied,
            missing=tuple(r for r in missing if not podclaims.is_reserved_for(claim, r.uid)),
        )

    async def _still_uses(self, claim: ResourceClaim, reference: ResourceClaimConsumerReference) -> bool:
        pod = await self._current_pod(claim.metadata.namespace, reference.name, reference.uid)
        return pod is not None and not podclaims.will_never_run(pod)

    def is_judged(self, reference: ResourceClaimConsumerReference) -> bool:
        """Whether this controller checks if the consumer is gone: not for pods, nor if the kind's gate is off."""
        if podclaims.is_pod(reference):
            return False
        return self._sharing.groups if podclaims.is_group(reference) else self._sharing.workloads

    async def _is_lost(self, claim: ResourceClaim, reference: ResourceClaimConsumerReference) -> bool:
        namespace, suspicious = claim.metadata.namespace, False
        if podclaims.is_pod(reference):
            return False
        if not self.is_judged(reference):
            return claim.metadata.deletionTimestamp is not None and await self._ends(namespace)
        if podclaims.is_group(reference) and self._groups is not None:
            group = self._groups.get(namespace, reference.name)
            if group is not None and group.metadata.uid == reference.uid:
                return podclaims.is_let_go(group)
            suspicious = True
        return await self._references.is_gone(namespace, reference, suspicious=suspicious)

    async def _ends(self, namespace: str) -> bool:
        """Whether a namespace is being deleted, and with it all consumers in it, even of kinds that are not served.

        Returns False if the namespace cannot be read.
        """
        try:
            found = await self._client.get(Namespace, namespace)
        except ApiError:
            return False
        return found.metadata.deletionTimestamp is not None

    def _is_for_workload(self, claim: ResourceClaim) -> bool:
        allocation = claim.status.allocation
        if not self._sharing.workloads or allocation is None:
            return False
        return claim.spec.reservedFor is not None or bool(allocation.reservedForAnyPod)

    async def _is_occupied(
        self,
        claim: ResourceClaim,
        remaining: list[ResourceClaimConsumerReference],
        lost: list[ResourceClaimConsumerReference],
    ) -> bool:
        """Whether a pod that uses the devices, or is about to, would lose all reservations that cover the pod.

        `remaining` are the reservations that stay, `lost` those to remove. Pods that will never run again do not
        count.
        """
        namespace, name = claim.metadata.namespace, claim.metadata.name
        any_pod = self._is_for_workload(claim) and any(not podclaims.is_pod(r) for r in remaining)
        lost_groups = {r.name for r in lost if podclaims.is_group(r)}

        def leans_on_it(pod: Pod) -> bool:
            if podclaims.will_never_run(pod) or any_pod or podclaims.covers(remaining, pod, self._sharing):
                return False
            orphaned = podclaims.group_name(pod) in lost_groups  # the claims of its entries can no longer be looked up
            return any(
                (use.claim == name or (orphaned and use.by_group and use.claim is None))
                and (podclaims.holds_devices(pod) or self._may_be_on_its_way(claim, use))
                for use in self._consumers.uses(pod)
            )

        if any(leans_on_it(pod) for pod in self._consumers.consumers(namespace, name)):
            return True
        # The informers' copies may lag behind, so the server is asked before devices are freed.
        return any(leans_on_it(pod) for pod in (await self._client.list(Pod, namespace)).items)

    def _may_be_on_its_way(self, claim: ResourceClaim, use: Use) -> bool:
        """Whether a pod without a node may be about to get one, relying on the claim as it is.

        If the claim has reservations, nothing is written to it for a pod of a group or a workload. A claim without
        reservations is written to, and that write conflicts with a deallocation; but the reservation may be removed
        again before the pod has its node.
        """
        if claim.status.reservedFor:
            return use.by_group or self._is_for_workload(claim)
        return claim.metadata.deletionTimestamp is None  # no pod joins a claim that is being deleted

    def _forgotten_groups(
        self, claim: ResourceClaim, kept: list[ResourceClaimConsumerReference]
    ) -> list[ResourceClaimConsumerReference]:
        """Return references to the groups of listed pods that use the claim through their group.

        A claim that was made for a single pod while groups were disabled stays the pod's own.
        """
        if podclaims.made_for(claim, "Pod") is not None:
            return []
        if self._groups is None or claim.status.allocation is None or claim.metadata.deletionTimestamp is not None:
            return []
        found: dict[str, ResourceClaimConsumerReference] = {}
        for reference in filter(podclaims.is_pod, kept):
            pod = self._pods.get(claim.metadata.namespace, reference.name)
            group = self._consumers.group_of(pod) if pod is not None else None
            if pod is None or group is None or group.metadata.deletionTimestamp is not None:
                continue
            if any(use.by_group and use.claim == claim.metadata.name for use in podclaims.uses_of(pod, group)):
                found[group.metadata.uid] = podclaims.group_reference(group)
        return [*found.values()]

    async def _owner_is_done(self, claim: ResourceClaim) -> bool:
        """Whether the pod that a claim was generated for is gone or will never run again.

        Returns False for a claim that was not generated for a pod.
        """
        owner = podclaims.made_for(claim, "Pod")
        if owner is None:
            return False
        pod = await self._current_pod(claim.metadata.namespace, owner.name, owner.uid)
        return pod is None or podclaims.will_never_run(pod)

    def _known_pod(self, namespace: str, name: str, uid: str) -> Pod | None:
        pod = self._pods.get(namespace, name)
        return pod if pod is not None and pod.metadata.uid == uid else None

    async def _current_pod(self, namespace: str, name: str, uid: str) -> Pod | None:
        """Return the pod with this uid, or None if it is gone.

        If the informers' copies lack the pod, the server is asked, since the copies may lag behind.
        """
        pod = self._known_pod(namespace, name, uid)
        if pod is not None:
            return pod
        try:
            pod = await self._client.get(Pod, name, namespace)
        except NotFound:
            return None
        return pod if pod.metadata.uid == uid else None
