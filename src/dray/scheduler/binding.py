"""Writing of decisions: claims get finalizer, allocation and reservation; then the pod is bound to its node.

Runs concurrently with the next scheduling cycles. Each claim is written on condition that it has not changed since it
was read; after a conflict the claim is read again, and binding continues only if the decision is still valid. On
failure, the pod's own reservations are removed unless the pod has a node nevertheless; allocations remain for other
pods to use or deallocate.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
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

CONFLICTS_ENDURED = 8  # limit of conflicts per claim; many concurrent bindings may write a shared claim


RivalOf = Callable[[ResourceClaim], Awaitable[str]]
"""Describes another claim that has a device of a newly written allocation; empty if there is none."""
ClaimsReady = Callable[[Promise, Sequence[ResourceClaim]], Awaitable[None]]
"""Waits until the devices of the written claims are ready for the pod."""


class Overtaken(Exception):
    """Another client changed a claim or pod so that the decision is no longer valid."""


PASSING = (Overtaken, Conflict, NotFound)  # failures of a binding that only mean that another client was faster


async def recorded(
    written: dict[str, ResourceClaim], claim: ResourceClaim, write: Awaitable[ResourceClaim]
) -> ResourceClaim:
    """Await a write of a claim, and record the claim in `written` (by uid) even if the response is lost.

    Returns the written claim and raises the errors of the write. If another client was faster, a record that this
    call added is removed.
    """
    is_known = claim.metadata.uid in written
    written[claim.metadata.uid] = claim
    try:
        return await write
    except PASSING:
        if not is_known:
            del written[claim.metadata.uid]
        raise


@dataclass
class BindingPreparation:
    """Claims written for a pod before it is bound to its node."""

    promise: Promise
    # the pod's claims as written, or unchanged if no write was needed
    settled: list[ResourceClaim] = field(default_factory=list)
    reserved: list[ResourceClaim] = field(default_factory=list)  # claims to which the pod's own reservation was added
    written: dict[str, ResourceClaim] = field(default_factory=dict)  # claims that were or may have been written, by uid
    made: ResourceClaim | None = None  # the created claim for the pod's extended resources


class Binder:
    """Writes placement decisions to the API server."""

    def __init__(
        self,
        client: Client,
        sharing: Sharing = Sharing(),  # noqa: B008 (immutable)
        ready: ClaimsReady | None = None,
        uses: Callable[[Pod], list[Use]] = podclaims.uses_of,
        latest: Callable[[str, str], ResourceClaim | None] = lambda namespace, name: None,
        rival_of: RivalOf | None = None,
    ) -> None:
        """`latest` returns the newest known copy of a claim by namespace and name, without a request to the server.

        `rival_of` is called after each written allocation, for servers that do not prevent double allocation.
        """
        self._rival_of = rival_of
        self._client = client
        self._uses = uses
        self._sharing = sharing
        self._ready = ready
        self._latest = latest

    async def bind(self, promise: Promise) -> list[ResourceClaim]:
        """Write the pod's claims, wait until its devices are ready, and bind the pod.

        Returns the claims as written or unchanged.

        On failure, removes the pod's reservations and raises the error again.
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
        """Write the claims of a pod. `known` holds newer copies of some claims, by uid.

        What was written is recorded in `prepared`, also if an error is raised. Raises Overtaken if the decision is no
        longer valid.
        """
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
        """Wait until the devices of a pod are ready, and write into the pod what its claims take from the node."""
        if self._ready is not None:
            await self._ready(prepared.promise, prepared.settled)
        if prepared.promise.node_claims:
            await self._tell_node_claims(prepared.promise, prepared.made)

    async def assign(self, prepared: BindingPreparation) -> None:
        """Bind a pod to its node. Raises Overtaken if one of its claims is no longer usable."""
        pod = prepared.promise.claims.pod
        self._check_claims(pod, prepared.settled)
        await self._assign(pod, prepared.promise.node)

    async def take_back(self, prepared: BindingPreparation) -> None:
        """Undo what was written for a pod: reservations (unless it has a node), extended resource claim, and status."""
        pod = prepared.promise.claims.pod
        if prepared.reserved and not await self.has_node(pod):
            for claim in prepared.reserved:
                await self.unreserve(claim, pod)
        if prepared.made is not None:
            await self.discard(prepared.made, pod)
        if prepared.promise.node_claims:
            await self._forget_node_claims(pod)

    def _check_claims(self, pod: Pod, claims: Sequence[ResourceClaim]) -> None:
        """Raise `Overtaken` if a claim is no longer usable for the pod.

        A claim that is being deleted counts as unusable if it lists the pod's group or workload but not the pod: no
        write for the pod would fail with a conflict and so reveal the deletion.
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
        """Write into the pod's status what its claims take from the node besides devices."""
        name = made.metadata.name if made is not None else ""
        told = tuple(
            replace(claim, resourceClaimName=name) if claim.resourceClaimName == IN_MEMORY else claim
            for claim in promise.node_claims
        )
        await change_status(self._client, promise.claims.pod, lambda pod: _with_node_claims(pod, told))

    async def _forget_node_claims(self, pod: Pod) -> None:
        """Remove from the pod's status what its claims take from the node, unless the pod has a node.

        Only logs errors.
        """
        try:
            await change_status(self._client, pod, _without_node_claims)
        except ApiError as error:
            log.info("could not take back what pod %s takes from its node: %s", pod.metadata.name, error)

    async def _make(self, extended: ResourceClaim) -> ResourceClaim:
        """Create the claim for extended resources. Returns the created claim. Raises ApiError if the server refuses
        it.
        """
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
        """Write allocation and reservation of a created extended resource claim, and name it in the pod's status.

        Returns the written claim.
        """
        pod = promise.claims.pod
        claim, _ = await self._settle(promise.with_extended_resource_claim(made), ClaimUse(made, by_group=False), {})
        status = PodExtendedResourceClaimStatus(requestMappings=promise.mappings, resourceClaimName=made.metadata.name)
        await change_status(self._client, pod, lambda now: _with_claim(now, pod, status))
        return claim

    async def discard(self, claim: ResourceClaim, pod: Pod) -> None:
        """Deallocate and delete a claim for extended resources, and its name in the pod's status. Only logs errors.

        Nothing happens if the pod runs with the claim.
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
        """Whether the pod has a node and uses this claim (by name) for its extended resources.

        Returns False if the pod is gone or was replaced. Raises ApiError if the server cannot be asked.
        """
        try:
            current = await self._client.get(Pod, pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            return False
        known = current.status.extendedResourceClaimStatus
        is_same = current.metadata.uid == pod.metadata.uid and bool(current.spec.nodeName)
        return is_same and known is not None and known.resourceClaimName == claim

    async def has_node(self, pod: Pod) -> bool:
        """Whether a pod is bound after a failed binding: the response was lost, or another client was faster.

        Returns False if the pod is gone or was replaced, and True if the server cannot be asked, because a
        superfluous reservation does no harm.
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
        """Allocate and reserve one claim, unless that is already done, and record the claim in `written`.

        `known` is a newer copy of the claim than that of `use`. Returns the claim, and whether the pod's own
        reservation was added. Raises Overtaken if the decision is no longer valid for the claim, or if the claim
        keeps changing.
        """
        claim, own = known or use.claim, False
        for _ in range(CONFLICTS_ENDURED):
            try:
                if self._is_settled(promise, use, claim):
                    return claim, own
                # Written claims are checked again, because a server without a feature gate drops unknown fields.
                status, adds_own = reservation(promise, use, claim, self._sharing)
                claim, own = await recorded(written, claim, self.write(claim, status)), adds_own
            except Conflict:
                claim = await self._read_again(promise, use.claim)
        raise Overtaken(f'resourceclaim "{claim.metadata.name}" keeps changing')

    def _is_settled(self, promise: Promise, use: ClaimUse, claim: ResourceClaim) -> bool:
        """Whether the claim is allocated and needs no further reservation for the pod."""
        if claim.status.allocation is None:
            return False
        claims = promise.claims
        return podclaims.consumer_to_add(claim, claims.pod, claims.through(use), self._sharing) is None

    async def write(self, claim: ResourceClaim, status: ResourceClaimStatus) -> ResourceClaim:
        """Write the status of a claim, after adding the finalizer. Returns the written claim.

        Raises Overtaken if the claim has too many consumers or another scheduler has allocated one of its devices.
        """
        if podclaims.CLAIM_FINALIZER not in claim.metadata.finalizers:
            claim = await self._protect(claim)
        if len(status.reservedFor) > podclaims.RESERVATIONS_LIMIT:
            # Other pods took the last reservations meanwhile. The next attempt sees this and reports it.
            raise Overtaken(f'resourceclaim "{claim.metadata.name}" takes no more consumers')
        if self._ready is not None and claim.status.allocation is None and status.allocation is not None:
            stamped = replace(status.allocation, allocationTimestamp=timestamp(time.time()))
            status = replace(status, allocation=stamped)
        written = await self._client.patch_status(claim, status)
        if self._rival_of is not None and claim.status.allocation is None and written.status.allocation is not None:
            await self._give_way(written, self._rival_of)
        return written

    async def _give_way(self, written: ResourceClaim, rival_of: RivalOf) -> None:
        """Release an allocation just written and raise Overtaken if another claim has one of its devices.

        If an ApiError prevents finding out, the allocation is released too, and the error is raised.
        """
        try:
            rival = await rival_of(written)
        except ApiError:
            await self._release(written)
            raise
        if rival:
            await self._release(written)
            raise Overtaken(f'resourceclaim "{written.metadata.name}": another scheduler was first, {rival}')

    async def _release(self, written: ResourceClaim) -> None:
        """Clear allocation and reservations of a written claim. Only logs errors."""
        try:
            await self._client.patch_status(written, replace(written.status, allocation=None, reservedFor=()))
        except ApiError as error:
            log.warning("could not release %s: %s", written.metadata.name, error)

    async def _protect(self, claim: ResourceClaim) -> ResourceClaim:
        """Add the claim finalizer. Returns the patched claim. Raises Conflict if the claim was changed meanwhile."""
        meta, finalizers = claim.metadata, [*claim.metadata.finalizers, podclaims.CLAIM_FINALIZER]
        said = {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "finalizers": finalizers}
        return await self._client.patch(ResourceClaim, meta.name, {"metadata": said}, meta.namespace)

    async def _read_again(self, promise: Promise, claim: ResourceClaim) -> ResourceClaim:
        """Read a claim again after a conflict. Raises Overtaken if the decision is no longer valid for the claim."""
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
        """Remove the pod's reservation from a claim. Only logs errors, because the claim controller also removes it."""
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
        """Clear an unused allocation that prevents a pod from being placed.

        If no pod is listed, first asks the server for pods that use the claim, since local copies may be outdated,
        and does nothing if there is one. Raises Conflict if the claim was changed meanwhile.
        """
        if not any(map(podclaims.is_pod, claim.status.reservedFor)):
            pods = (await self._client.list(Pod, claim.metadata.namespace)).items
            if any(self._is_user(pod, claim) for pod in pods):
                return
        await self._client.patch_status(claim, ResourceClaimStatus())

    def _is_user(self, pod: Pod, claim: ResourceClaim) -> bool:
        """Whether a pod has a node, is not finished, and uses the claim. Compares only the claim's name."""
        uses = self._uses(pod) if podclaims.holds_devices(pod) else ()
        return any(use.claim == claim.metadata.name for use in uses)


def _with_claim(pod: Pod, seen: Pod, status: PodExtendedResourceClaimStatus) -> PodStatus:
    """Return the pod status that names the extended resource claim.

    Raises Overtaken if another scheduler placed the pod.
    """
    known = pod.status.extendedResourceClaimStatus
    if pod.spec.nodeName or (known is not None and known != seen.status.extendedResourceClaimStatus):
        raise Overtaken(f"pod {pod.metadata.name} was placed by another scheduler")
    return replace(pod.status, extendedResourceClaimStatus=status)


def _with_node_claims(pod: Pod, told: NodeClaims) -> PodStatus:
    """Return the pod status with what claims take from the node. Raises Overtaken if the pod already has a node."""
    if pod.spec.nodeName:
        raise Overtaken(f"pod {pod.metadata.name} was placed by another scheduler")
    return replace(pod.status, nodeAllocatableResourceClaimStatuses=told)


def _without_node_claims(pod: Pod) -> PodStatus:
    return pod.status if pod.spec.nodeName else replace(pod.status, nodeAllocatableResourceClaimStatuses=())


def _without_claim(pod: Pod, name: str) -> PodStatus:
    """Return the pod status without the name of this extended resource claim, unchanged if it names another or none."""
    known = pod.status.extendedResourceClaimStatus
    is_named = known is not None and known.resourceClaimName == name
    return replace(pod.status, extendedResourceClaimStatus=None) if is_named else pod.status


def _same_devices(current: ResourceClaim, seen: ResourceClaim) -> bool:
    """Whether a claim still has the allocation that was decided on. Reservation for any pod is ignored.

    Returns False if either copy of the claim is not allocated.
    """
    now, then = current.status.allocation, seen.status.allocation
    return (
        now is not None and then is not None and now.devices == then.devices and now.nodeSelector == then.nodeSelector
    )
