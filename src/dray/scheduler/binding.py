"""What a decision writes: claims get finalizer, allocation and reservation, then the pod gets its node.

Runs beside the next scheduling cycles. Every claim is written on the condition that it has not changed since it was
read; a conflict reads it again and goes on only if the decision still stands. What fails is undone as far as it was
ours to do: the pod's own reservations are given back, unless it has a node nevertheless; allocations stay for others to
use or to deallocate.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from msgspec.structs import replace

from dray.api import podclaims
from dray.api.claim_access import ClaimUse
from dray.api.errors import ApiError, Conflict, NotFound
from dray.api.extended_resources import IN_MEMORY
from dray.api.podclaims import Sharing, Use
from dray.api.times import timestamp
from dray.api.types.core import Binding, ObjectReference, Pod, PodExtendedResourceClaimStatus, PodStatus
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import ResourceClaim, ResourceClaimStatus
from dray.client import Client, change_status
from dray.core.attempt import Promise
from dray.core.devices import version_of
from dray.core.reservations import reservation
from dray.scheduler.metrics import CLAIM_CREATES
from dray.verdicts.node_resources import NodeClaims

log = logging.getLogger(__name__)

CONFLICTS_ENDURED = 8  # a claim shared by many pods is written by many bindings at once


RivalOf = Callable[[ResourceClaim], Awaitable[str]]
"""Names a claim that has a device of an allocation which was just written; empty if there is none."""
ClaimsReady = Callable[[Promise, Sequence[ResourceClaim]], Awaitable[None]]
"""Waits until the devices of claims that were written are ready for the pod."""


class Overtaken(Exception):
    """Somebody else changed a claim so that the decision does not stand any more."""


PASSING = (Overtaken, Conflict, NotFound)  # failures of a binding that only mean that somebody else was faster


@contextmanager
def maybe_written(written: dict[str, ResourceClaim], claim: ResourceClaim) -> Iterator[None]:
    """Note a claim that is written within the block, also if the answer is lost; not if somebody else was faster."""
    is_known = claim.metadata.uid in written
    written[claim.metadata.uid] = claim
    try:
        yield
    except PASSING:
        if not is_known:
            del written[claim.metadata.uid]
        raise


@dataclass
class BindingPreparation:
    """What was written for a pod before it gets its node."""

    promise: Promise
    settled: list[ResourceClaim] = field(default_factory=list)  # its claims as they were written, or needed nothing
    reserved: list[ResourceClaim] = field(default_factory=list)  # those to which its own reservation was added
    written: dict[str, ResourceClaim] = field(default_factory=dict)  # by uid, those that were or may have been written
    made: ResourceClaim | None = None  # the claim for its extended resources


class Binder:
    """Writes decisions."""

    def __init__(
        self,
        client: Client,
        sharing: Sharing = Sharing(),  # noqa: B008 (immutable)
        ready: ClaimsReady | None = None,
        uses: Callable[[Pod], list[Use]] = podclaims.uses_of,
        latest: Callable[[str, str], ResourceClaim | None] = lambda namespace, name: None,
        rival_of: RivalOf | None = None,
    ) -> None:
        """`latest` returns the newest known copy of a claim, by namespace and name, without asking the server.

        `rival_of` is asked after an allocation was written, where the server does not hold devices.
        """
        self._rival_of = rival_of
        self._client = client
        self._uses = uses
        self._sharing = sharing
        self._ready = ready
        self._latest = latest

    async def bind(self, promise: Promise) -> list[ResourceClaim]:
        """Claims first, then the pod; on failure the reservations are taken back and the error goes on.

        In between, devices are made ready, where somebody waits for that. Returns the claims as they were written, or
        found to need nothing.
        """
        prepared = BindingPreparation(promise)
        try:
            await self.prepare(prepared)
            await self.make_ready(prepared)
            await self.assign(prepared)
        except BaseException:
            await self.take_back(prepared)
            raise
        return prepared.settled

    async def prepare(
        self, prepared: BindingPreparation, known: Mapping[str, ResourceClaim] = MappingProxyType({})
    ) -> None:
        """Write the claims of a pod. `known` are newer copies of some, by uid."""
        promise = prepared.promise
        for use in promise.claims.uses:
            claim, own = await self._settle(promise, use, prepared.written, known.get(use.claim.metadata.uid))
            prepared.settled.append(claim)
            if own:
                prepared.reserved.append(claim)
        if promise.extended_resource_claim is not None:
            prepared.made = await self._make(promise.extended_resource_claim)
            prepared.settled.append(await self._record(promise, prepared.made))

    async def make_ready(self, prepared: BindingPreparation) -> None:
        """Wait until the devices of a pod are ready, where somebody waits for that."""
        if self._ready is not None:
            await self._ready(prepared.promise, prepared.settled)
        if prepared.promise.node_claims:
            await self._tell_node_claims(prepared.promise, prepared.made)

    async def assign(self, prepared: BindingPreparation) -> None:
        """Give a pod its node."""
        pod = prepared.promise.claims.pod
        self._check_claims(pod, prepared.settled)
        await self._assign(pod, prepared.promise.node)

    async def take_back(self, prepared: BindingPreparation) -> None:
        """Give back what was written for a pod, unless it has a node nevertheless."""
        pod = prepared.promise.claims.pod
        if prepared.reserved and not await self.has_node(pod):
            for claim in prepared.reserved:
                await self.unreserve(claim, pod)
        if prepared.made is not None:
            await self.discard(prepared.made, pod)
        if prepared.promise.node_claims:
            await self._forget_node_claims(pod)

    def _check_claims(self, pod: Pod, claims: Sequence[ResourceClaim]) -> None:
        """Raise `Overtaken` if a claim was taken away since it was written or found to need nothing.

        That it is being deleted counts where it lists the pod's group or workload but not the pod: such a claim is not
        written for the pod, so that no write conflict tells of the deletion.
        """
        for claim in claims:
            now = self._latest(claim.metadata.namespace, claim.metadata.name) or claim
            if version_of(now) < version_of(claim):
                continue
            if not podclaims.is_reserved_for(claim, pod.metadata.uid) and now.metadata.deletionTimestamp is not None:
                raise Overtaken(f'resourceclaim "{claim.metadata.name}" is being deleted')
            if now.metadata.uid != claim.metadata.uid or not podclaims.may_use(now, pod, self._sharing):
                raise Overtaken(f'resourceclaim "{claim.metadata.name}" was taken away')

    async def _tell_node_claims(self, promise: Promise, made: ResourceClaim | None) -> None:
        """Tell in the pod what its claims take from the node besides devices."""
        name = made.metadata.name if made is not None else ""
        told = tuple(
            replace(claim, resourceClaimName=name) if claim.resourceClaimName == IN_MEMORY else claim
            for claim in promise.node_claims
        )
        await change_status(self._client, promise.claims.pod, lambda pod: _with_node_claims(pod, told))

    async def _forget_node_claims(self, pod: Pod) -> None:
        """Take that back, unless the pod has got a node with it. What cannot be done is left to the next attempt."""
        try:
            await change_status(self._client, pod, _without_node_claims)
        except ApiError as error:
            log.info("could not take back what pod %s takes from its node: %s", pod.metadata.name, error)

    async def _make(self, extended: ResourceClaim) -> ResourceClaim:
        """Create the claim for extended resources."""
        meta = extended.metadata
        metadata = replace(meta, name="", uid="", namespace=meta.namespace)
        try:
            claim = replace(extended, metadata=metadata)
            made = await self._client.create(ResourceClaim, claim, namespace=meta.namespace)
        except ApiError:
            CLAIM_CREATES.of("failure").add()
            raise
        CLAIM_CREATES.of("success").add()
        return made

    async def _record(self, promise: Promise, made: ResourceClaim) -> ResourceClaim:
        """Give a claim that was made its devices, and tell the pod which of them are for which container."""
        pod = promise.claims.pod
        claim, _ = await self._settle(promise.with_extended_resource_claim(made), ClaimUse(made, by_group=False), {})
        status = PodExtendedResourceClaimStatus(requestMappings=promise.mappings, resourceClaimName=made.metadata.name)
        await change_status(self._client, pod, lambda now: _with_claim(now, pod, status))
        return claim

    async def discard(self, claim: ResourceClaim, pod: Pod) -> None:
        """Delete a claim for extended resources with all that it holds, unless the pod has got a node with it.

        What cannot be done is left to the next attempt.
        """
        name, namespace = claim.metadata.name, claim.metadata.namespace
        try:
            if await self._runs_with(pod, name):
                return
            claim = await self._client.get(ResourceClaim, name, namespace)
            if claim.status != ResourceClaimStatus():
                claim = await self._client.patch_status(claim, ResourceClaimStatus())
            if claim.metadata.finalizers:
                said = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resourceVersion, "finalizers": []}
                claim = await self._client.patch(ResourceClaim, name, {"metadata": said}, namespace)
            await self._client.delete(ResourceClaim, name, namespace, uid=claim.metadata.uid)
            await change_status(self._client, pod, lambda pod: _without_claim(pod, name))
        except ApiError as error:
            log.info("could not delete %s: %s", name, error)

    async def _runs_with(self, pod: Pod, claim: str) -> bool:
        """Whether a pod has a node, and gets its extended resources there from this claim."""
        try:
            current = await self._client.get(Pod, pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            return False
        known = current.status.extendedResourceClaimStatus
        is_same = current.metadata.uid == pod.metadata.uid and bool(current.spec.nodeName)
        return is_same and known is not None and known.resourceClaimName == claim

    async def has_node(self, pod: Pod) -> bool:
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

    async def _settle(
        self, promise: Promise, use: ClaimUse, written: dict[str, ResourceClaim], known: ResourceClaim | None = None
    ) -> tuple[ResourceClaim, bool]:
        """Make one claim allocated and reserved, and note it among those `written` unless the server refuses that.

        Returns the claim, and whether the pod's own reservation was added.
        """
        claim, own = known or use.claim, False
        for _ in range(CONFLICTS_ENDURED):
            try:
                if self._is_settled(promise, use, claim):
                    return claim, own
                # What was written is looked at again: a server without a gate drops what it does not know.
                with maybe_written(written, claim):
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
        status, own = reservation(promise, use, claim, self._sharing)
        return await self.write(claim, status), own

    async def write(self, claim: ResourceClaim, status: ResourceClaimStatus) -> ResourceClaim:
        """Write the allocation and the reservations of a claim, after its finalizer."""
        if podclaims.CLAIM_FINALIZER not in claim.metadata.finalizers:
            claim = await self._protect(claim)
        if len(status.reservedFor) > podclaims.RESERVATIONS_LIMIT:
            # The last places went while this was decided. The next attempt sees that, and tells the pod.
            raise Overtaken(f'resourceclaim "{claim.metadata.name}" takes no more consumers')
        if self._ready is not None and claim.status.allocation is None and status.allocation is not None:
            stamped = replace(status.allocation, allocationTimestamp=timestamp(time.time()))
            status = replace(status, allocation=stamped)
        written = await self._client.patch_status(claim, status)
        if self._rival_of is not None and claim.status.allocation is None and written.status.allocation is not None:
            await self._give_way(written, self._rival_of)
        return written

    async def _give_way(self, written: ResourceClaim, rival_of: RivalOf) -> None:
        """Release an allocation that was just written, unless its devices are its own."""
        try:
            rival = await rival_of(written)
        except ApiError:
            await self._release(written)
            raise
        if rival:
            await self._release(written)
            raise Overtaken(f'resourceclaim "{written.metadata.name}": another scheduler was first, {rival}')

    async def _release(self, written: ResourceClaim) -> None:
        try:
            await self._client.patch_status(written, replace(written.status, allocation=None, reservedFor=()))
        except ApiError as error:
            log.warning("could not release %s: %s", written.metadata.name, error)

    async def _protect(self, claim: ResourceClaim) -> ResourceClaim:
        """Add the finalizer."""
        meta, finalizers = claim.metadata, [*claim.metadata.finalizers, podclaims.CLAIM_FINALIZER]
        said = {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "finalizers": finalizers}
        return await self._client.patch(ResourceClaim, meta.name, {"metadata": said}, meta.namespace)

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
            remaining = tuple(r for r in claim.status.reservedFor if r.uid != pod.metadata.uid)
            try:
                await self._client.patch_status(claim, replace(claim.status, reservedFor=remaining))
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
        """Clear an allocation that is in the way and that nobody uses.

        Where no pod is listed, the server is asked for pods that use it nevertheless, since the copies may lag behind.
        """
        if not any(map(podclaims.is_pod, claim.status.reservedFor)):
            pods = (await self._client.list(Pod, claim.metadata.namespace)).items
            if any(self._is_user(pod, claim) for pod in pods):
                return
        await self._client.patch_status(claim, ResourceClaimStatus())

    def _is_user(self, pod: Pod, claim: ResourceClaim) -> bool:
        uses = self._uses(pod) if podclaims.holds_devices(pod) else ()
        return any(use.claim == claim.metadata.name for use in uses)


def _with_claim(pod: Pod, seen: Pod, status: PodExtendedResourceClaimStatus) -> PodStatus:
    """The status that names the claim for extended resources. A pod has one, so whoever comes second gives way."""
    known = pod.status.extendedResourceClaimStatus
    if pod.spec.nodeName or (known is not None and known != seen.status.extendedResourceClaimStatus):
        raise Overtaken(f"pod {pod.metadata.name} was placed by another scheduler")
    return replace(pod.status, extendedResourceClaimStatus=status)


def _with_node_claims(pod: Pod, told: NodeClaims) -> PodStatus:
    if pod.spec.nodeName:
        raise Overtaken(f"pod {pod.metadata.name} was placed by another scheduler")
    return replace(pod.status, nodeAllocatableResourceClaimStatuses=told)


def _without_node_claims(pod: Pod) -> PodStatus:
    return pod.status if pod.spec.nodeName else replace(pod.status, nodeAllocatableResourceClaimStatuses=())


def _without_claim(pod: Pod, name: str) -> PodStatus:
    """The status of a pod that does not name a claim for extended resources any more."""
    known = pod.status.extendedResourceClaimStatus
    is_named = known is not None and known.resourceClaimName == name
    return replace(pod.status, extendedResourceClaimStatus=None) if is_named else pod.status


def _same_devices(current: ResourceClaim, seen: ResourceClaim) -> bool:
    """Whether an allocation is the one that was decided on; that it is open to any pod now does not matter."""
    now, then = current.status.allocation, seen.status.allocation
    return (
        now is not None and then is not None and now.devices == then.devices and now.nodeSelector == then.nodeSelector
    )
