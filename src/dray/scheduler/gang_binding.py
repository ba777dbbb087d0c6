"""Writing of a gang's placement: all claims first, then the wait for devices, then the pods.

The API has no transactions. Until the first pod is bound, the claims form a plan: each has its allocation and lists
the gang's pods, or the PodGroup. If anything fails before, the plan is withdrawn as a whole. Once a pod is bound, the
other pods follow, now or in a later attempt. Left out: deciding (`dray.core.gang_attempt`) and plans that could not
be withdrawn (`gang_recovery`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from dray.api.errors import ApiError, Conflict, NotFound
from dray.api.podclaims import Sharing
from dray.api.types.resource import ResourceClaim, ResourceClaimStatus
from dray.api.types.scheduling import PodGroup
from dray.client import Client
from dray.core.gang_attempt import PlacedMember
from dray.core.gangs import GroupKey
from dray.core.reservations import reservation
from dray.scheduler.binding import CONFLICTS_ENDURED, Binder, BindingPreparation, Overtaken, recorded
from dray.scheduler.tasks import each

log = logging.getLogger(__name__)


@dataclass
class GangPlan:
    """Promised pods of a gang, and the results of writing their placement."""

    group: PodGroup
    members: list[PlacedMember]
    # bound pods with their claims
    written: list[tuple[PlacedMember, list[ResourceClaim]]] = field(default_factory=list)
    failed: list[tuple[PlacedMember, Exception]] = field(default_factory=list)
    shared: dict[str, ResourceClaim] = field(default_factory=dict)  # written claims that several pods use, by uid
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # set when too few members remain
    is_released: bool = True  # whether everything written by a failed plan was withdrawn

    @property
    def key(self) -> GroupKey:
        return self.group.metadata.namespace, self.group.metadata.name


UnboundMembers = Callable[[GangPlan], list[PlacedMember]]
"""Returns the members that still exist and have not failed; empty if they are too few for the gang."""


class GangBinder:
    """Writes plans of gangs and withdraws them."""

    def __init__(
        self,
        client: Client,
        binder: Binder,
        sharing: Sharing,
        remaining: UnboundMembers,
        is_bound: Callable[[GroupKey], bool],
    ) -> None:
        """`is_bound` tells whether any pod of a PodGroup has a node."""
        self._client = client
        self._binder = binder
        self._sharing = sharing
        self._remaining = remaining
        self._is_bound = is_bound

    async def bind(self, plan: GangPlan) -> None:
        """Write a plan.

        Raises any error that occurs before the first pod is bound, after taking back what was written; later failures
        are recorded in `plan.failed`.
        """
        prepared = {member.waiting.key: BindingPreparation(member.promise) for member in plan.members}
        try:
            known = await self._write_shared(plan)
            await each(prepared.values(), lambda one: self._binder.prepare(one, known))
            await self._make_ready(plan, prepared.values())
            await self._assign(plan, prepared)
        except BaseException:
            if not await self._any_bound(plan.members):
                await self._take_back(plan, [*prepared.values()])
            raise

    async def _make_ready(self, plan: GangPlan, prepared: Collection[BindingPreparation]) -> None:
        """Wait for the devices of all pods. Raises an error once one pod's devices fail or too few pods remain."""
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(_changes(plan))
                await asyncio.wait([group.create_task(self._binder.make_ready(one)) for one in prepared])
                watch.cancel()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _assign(self, plan: GangPlan, prepared: Mapping[str, BindingPreparation]) -> None:
        """Bind the pods, the first pod alone, because the plan can only be withdrawn while no pod is bound.

        Raises the first error if no pod could be bound, and Overtaken if too few pods remained from the start.
        """

        async def assign(member: PlacedMember) -> None:
            one = prepared[member.waiting.key]
            try:
                await self._binder.assign(one)
            except Exception as error:  # the other pods are bound nevertheless
                if not await self._binder.has_node(member.waiting.pod):
                    plan.failed.append((member, error))
                    await self._binder.take_back(one)
                    return
            plan.written.append((member, one.settled))

        while staying := self._remaining(plan):
            await assign(staying[0])
            if plan.written:
                known = {member.waiting.key for member in staying} | {member.waiting.key for member, _ in plan.failed}
                gone = [member for member in plan.members if member.waiting.key not in known]
                plan.failed += [(member, Overtaken("the pod is gone")) for member in gone]
                await each(staying[1:], assign)
                return
        error = plan.failed[0][1] if plan.failed else _has_changed(plan)
        plan.failed.clear()
        raise error

    async def _write_shared(self, plan: GangPlan) -> dict[str, ResourceClaim]:
        """Write each claim that several members use, once for all of them. Returns these claims by uid.

        A claim that needs no change is not written but returned as well.
        """
        uses = [(member.promise, use) for member in plan.members for use in member.promise.claims.uses]
        users = Counter(use.claim.metadata.uid for _, use in uses)
        claims: dict[str, ResourceClaim] = {}
        planned: dict[str, ResourceClaimStatus] = {}
        for promise, use in uses:
            uid = use.claim.metadata.uid
            if users[uid] == 1:
                continue
            claims.setdefault(uid, use.claim)
            claim = claims[uid]
            now = replace(claim, status=planned.get(uid, claim.status))
            planned[uid], _ = reservation(promise, use, now, self._sharing)

        written: dict[str, ResourceClaim] = {}

        async def write(uid: str) -> None:
            written[uid] = claim = claims[uid]
            if claim.status != planned[uid]:
                written[uid] = await recorded(plan.shared, claim, self._binder.write(claim, planned[uid]))

        await each([*planned], write)
        return written

    async def _any_bound(self, members: Iterable[PlacedMember]) -> bool:
        """Whether the server reports a node for any of these pods, for example from another scheduler.

        A pod about which the server cannot be asked counts as bound.
        """
        for member in members:
            if await self._binder.has_node(member.waiting.pod):
                return True
        return False

    async def _take_back(self, plan: GangPlan, prepared: Sequence[BindingPreparation]) -> None:
        """Release everything that a plan has written."""
        users = {member.waiting.key for member in plan.members}
        if not self._is_bound(plan.key):
            users.add(plan.group.metadata.uid)
        claims = dict(plan.shared)
        for one in prepared:
            claims |= one.written
            one.reserved.clear()  # reservations are released together below
        await each(prepared, self._binder.take_back)

        async def release(claim: ResourceClaim) -> None:
            if not await self.release(claim, users):
                plan.is_released = False

        await each(claims.values(), release)

    async def release(self, claim: ResourceClaim, users: Collection[str]) -> bool:
        """Remove these users (by uid) from a claim, and deallocate the claim if no other user remains.

        Returns True if this succeeded or was not needed because the claim is gone, replaced or not allocated. Returns
        False after an ApiError or too many conflicts.
        """
        name, namespace = claim.metadata.name, claim.metadata.namespace
        for _ in range(CONFLICTS_ENDURED):
            try:
                current = await self._client.get(ResourceClaim, name, namespace)
                listed = current.status.reservedFor
                left = tuple(one for one in listed if one.uid not in users)
                if current.metadata.uid != claim.metadata.uid or current.status.allocation is None:
                    return True
                if not listed:
                    await self._binder.deallocate(current)
                elif not left:
                    await self._client.patch_status(current, ResourceClaimStatus())
                elif left != listed:
                    await self._client.patch_status(current, replace(current.status, reservedFor=left))
                return True
            except Conflict:
                continue
            except NotFound:
                return True
            except ApiError as error:
                log.info("could not release claim %s/%s: %s", namespace, name, error)
                return False
        return False


async def _changes(plan: GangPlan) -> None:
    """Raise Overtaken as soon as too few members of a plan remain."""
    await plan.changed.wait()
    raise _has_changed(plan)


def _has_changed(plan: GangPlan) -> Overtaken:
    return Overtaken(f'podgroup "{plan.group.metadata.name}" has changed')
