"""What a decision writes: claims get finalizer, allocation and reservation, then the pod gets its node.

Runs beside the next scheduling cycles. Every claim is written on the condition that it has not changed since it was
read; a conflict reads it again and goes on only if the decision still stands. What fails is undone as far as it was
ours to do: the pod's own reservations are given back, unless it has a node nevertheless; allocations stay for others to
use or to deallocate.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api import podclaims
from dray.api.errors import ApiError, Conflict, NotFound
from dray.api.podclaims import Sharing
from dray.api.types.core import Binding, ObjectReference, Pod
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import AllocationResult, ResourceClaim, ResourceClaimStatus
from dray.client import Client
from dray.scheduler.devices import ClaimUse, Promise

log = logging.getLogger(__name__)

CONFLICTS_ENDURED = 8  # a claim shared by many pods is written by many bindings at once


class Overtaken(Exception):
    """Somebody else changed a claim so that the decision does not stand any more."""


class Binder:
    """Writes decisions."""

    def __init__(self, client: Client, sharing: Sharing = Sharing()) -> None:  # noqa: B008 (immutable)
        self._client = client
        self._sharing = sharing

    async def bind(self, promise: Promise) -> list[ResourceClaim]:
        """Claims first, then the pod; on failure the reservations are taken back and the error goes on.

        Returns the claims as they were written, or found to need nothing.
        """
        pod = promise.claims.pod
        settled: list[ResourceClaim] = []
        reserved: list[ResourceClaim] = []
        try:
            for use in promise.claims.uses:
                claim, own = await self._settle(promise, use)
                settled.append(claim)
                if own:
                    reserved.append(claim)
            await self._assign(pod, promise.node)
        except BaseException:
            if reserved and not await self._has_node(pod):
                for claim in reserved:
                    await self.unreserve(claim, pod)
            raise
        return settled

    async def _has_node(self, pod: Pod) -> bool:
        """Whether a pod that we could not bind is bound: the answer was lost, or somebody else was faster.

        Where that cannot be found out, it may be: a reservation too many keeps nobody from running.
        """
        try:
            current = await self._client.get(Pod, pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            return False
        except ApiError:
            return True
        return current.metadata.uid == pod.metadata.uid and bool(current.spec.nodeName)

    async def _assign(self, pod: Pod, node: str) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        metadata = ObjectMeta(name=name, namespace=namespace, uid=pod.metadata.uid)
        binding = Binding(metadata=metadata, target=ObjectReference(apiVersion="v1", kind="Node", name=node))
        await self._client.create(Pod, binding, namespace=namespace, name=name, subresource="binding")

    async def _settle(self, promise: Promise, use: ClaimUse) -> tuple[ResourceClaim, bool]:
        """Make one claim allocated and reserved; the claim, and whether the pod's own reservation was added."""
        claim, own = use.claim, False
        for _ in range(CONFLICTS_ENDURED):
            try:
                if self._is_settled(promise, use, claim):
                    return claim, own
                # What was written is looked at again: a server without a gate drops what it does not know.
                claim, own = await self._write(promise, use, claim)
            except Conflict:
                claim = await self._read_again(promise, use.claim)
        raise Overtaken(f'resourceclaim "{claim.metadata.name}" keeps changing')

    def _is_settled(self, promise: Promise, use: ClaimUse, claim: ResourceClaim) -> bool:
        if claim.status.allocation is None:
            return False
        claims = promise.claims
        return podclaims.consumer_to_add(claim, claims.pod, claims.through(use), self._sharing) is None

    async def _write(self, promise: Promise, use: ClaimUse, claim: ResourceClaim) -> tuple[ResourceClaim, bool]:
        """Add what is missing; whether the pod's own reservation was in it."""
        if podclaims.CLAIM_FINALIZER not in claim.metadata.finalizers:
            claim = await self._patch(
                claim, {"metadata": {"finalizers": [*claim.metadata.finalizers, podclaims.CLAIM_FINALIZER]}}
            )
        status, own = reservation(promise, use, claim, self._sharing)
        return await self._patch(claim, {"status": status}, subresource="status"), own

    async def _patch(self, claim: ResourceClaim, patch: dict[str, Any], subresource: str = "") -> ResourceClaim:
        meta = claim.metadata
        patch["metadata"] = {**patch.get("metadata", {}), "uid": meta.uid, "resourceVersion": meta.resourceVersion}
        return await self._client.patch(ResourceClaim, meta.name, patch, meta.namespace, subresource=subresource)

    async def _read_again(self, promise: Promise, claim: ResourceClaim) -> ResourceClaim:
        """The claim as it is now, if the decision still stands for it."""
        name = claim.metadata.name
        try:
            current = await self._client.get(ResourceClaim, name, claim.metadata.namespace)
        except NotFound:
            raise Overtaken(f'resourceclaim "{name}" is gone') from None
        if current.metadata.uid != claim.metadata.uid:
            raise Overtaken(f'resourceclaim "{name}" was deleted and created again')
        if current.metadata.deletionTimestamp is not None:
            raise Overtaken(f'resourceclaim "{name}" is being deleted')
        if promise.allocation_of(claim) is not None and current.status.allocation is not None:
            raise Overtaken(f'resourceclaim "{name}" was allocated by another scheduler')
        if promise.allocation_of(claim) is None and not _same_devices(current, claim):
            raise Overtaken(f'resourceclaim "{name}" is allocated differently now')
        return current

    async def unreserve(self, claim: ResourceClaim, pod: Pod) -> None:
        """Give the pod's reservation back, and nothing else. Gives up quietly: the claim controller does it too."""
        for _ in range(CONFLICTS_ENDURED):
            remaining = [podclaims.reference_tree(r) for r in claim.status.reservedFor if r.uid != pod.metadata.uid]
            try:
                await self._patch(claim, {"status": {"reservedFor": remaining or None}}, subresource="status")
            except Conflict:
                try:
                    claim = await self._client.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)
                except ApiError:
                    return
                continue
            except ApiError as error:
                log.info("could not give back the reservation of %s: %s", claim.metadata.name, error)
            return

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Clear an allocation that is in the way and that nobody uses."""
        status = {"allocation": None, "devices": None, "reservedFor": None}
        await self._patch(claim, {"status": status}, subresource="status")


def reservation(
    promise: Promise, use: ClaimUse, claim: ResourceClaim, sharing: Sharing
) -> tuple[ResourceClaimStatus, bool]:
    """The status to write, and whether the pod's own reservation is in it."""
    pod, group = promise.claims.pod, promise.claims.through(use)
    allocation = _allocation(promise, claim, sharing) if claim.status.allocation is None else None
    if allocation is not None:
        claim = replace(claim, status=replace(claim.status, allocation=allocation))
    consumer = podclaims.consumer_to_add(claim, pod, group, sharing)
    added = () if consumer is None else (consumer,)
    own = consumer is not None and consumer.uid == pod.metadata.uid
    return ResourceClaimStatus(allocation=allocation, reservedFor=(*claim.status.reservedFor, *added)), own


def _allocation(promise: Promise, claim: ResourceClaim, sharing: Sharing) -> AllocationResult | None:
    """What the claim was promised, open to any pod where it is meant for a workload."""
    promised = promise.allocation_of(claim)
    if promised is None:
        return None
    allocation = msgspec.convert(promised, AllocationResult)
    return replace(allocation, reservedForAnyPod=True) if claim.spec.reservedFor and sharing.workloads else allocation


def _same_devices(current: ResourceClaim, seen: ResourceClaim) -> bool:
    """Whether an allocation is the one that was decided on; that it is open to any pod now does not matter."""
    now, then = current.status.allocation, seen.status.allocation
    return (
        now is not None and then is not None and now.devices == then.devices and now.nodeSelector == then.nodeSelector
    )
