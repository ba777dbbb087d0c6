"""Writes the placement of a gang: all claims first, then the wait for devices, and the pods last.

The API has no transactions. Until the first pod is bound, the claims are a plan: each has its allocation and lists the
gang's pods, or the group. If anything fails by then, the plan is taken back as a whole. Once a pod is bound, the others
follow, now or in a later attempt. A scheduler that starts finds plans without a bound pod and releases them; it completes
the others. Left out: deciding (`dray.core.gang_attempt`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from dray.api import podclaims
from dray.api.errors import ApiError, Conflict, NotFound
from dray.api.extended_resources import IN_MEMORY
from dray.api.podclaims import Sharing
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimStatus
from dray.api.types.scheduling import PodGroup
from dray.client import Client
from dray.core.gang_attempt import PlacedMember
from dray.core.reservations import reservation
from dray.scheduler.binding import CONFLICTS_ENDURED, Binder, BindingPreparation, Overtaken
from dray.scheduler.tasks import each

log = logging.getLogger(__name__)


@dataclass
class GangPlan:
    """The pods of a gang that were promised places, and what became of them."""

    group: PodGroup
    members: list[PlacedMember]
    written: list[tuple[PlacedMember, list[ResourceClaim]]] = field(default_factory=list)  # pods with nodes
    failed: list[tuple[PlacedMember, Exception]] = field(default_factory=list)


Remaining = Callable[[GangPlan], list[PlacedMember]]
"""The members that are still there, if they are enough; else none."""


class GangBinder:
    """Writes plans and takes them back."""

    def __init__(self, client: Client, binder: Binder, sharing: Sharing, remaining: Remaining) -> None:
        self._client = client
        self._binder = binder
        self._sharing = sharing
        self._remaining = remaining

    async def bind(self, plan: GangPlan) -> None:
        """Write a plan. Raises what went wrong before a pod was bound; later failures are noted in the plan."""
        prepared = {member.waiting.key: BindingPreparation(member.promise) for member in plan.members}
        try:
            known = await self._write_shared(plan.members)
            await each(prepared.values(), lambda one: self._binder.prepare(one, known))
            await each(prepared.values(), self._binder.make_ready, limit=len(prepared))
            staying = self._remaining(plan)
            if not staying:
                raise Overtaken(f'podgroup "{plan.group.metadata.name}" has changed')
        except BaseException:
            if not await self._any_bound(plan.members):
                await self._take_back(plan, [*prepared.values()])
            raise
        gone = [member for member in plan.members if member not in staying]
        plan.failed += [(member, Overtaken("the pod is gone")) for member in gone]
        await self._assign(plan, staying, prepared)

    async def _assign(
        self, plan: GangPlan, staying: Sequence[PlacedMember], prepared: dict[str, BindingPreparation]
    ) -> None:
        """Bind the pods; the first one alone, since as long as none is bound the plan can be taken back."""

        async def assign(member: PlacedMember) -> None:
            one = prepared[member.waiting.key]
            try:
                await self._binder.assign(one)
            except Exception as error:  # the others are to be bound nevertheless
                if not await self._binder.has_node(member.waiting.pod):
                    plan.failed.append((member, error))
                    await self._binder.take_back(one)
                    return
            plan.written.append((member, one.settled))

        for at, member in enumerate(staying):
            await assign(member)
            if plan.written:
                await each(staying[at + 1 :], assign)
                return
        error = plan.failed[0][1]
        await self._take_back(plan, [*prepared.values()])
        plan.failed.clear()
        raise error

    async def _write_shared(self, members: Sequence[PlacedMember]) -> dict[str, ResourceClaim]:
        """Write the claims that several members use, each at once for all of them. Returns them by uid."""
        uses = [(member.promise, use) for member in members for use in member.promise.claims.uses]
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
            claim = claims[uid]
            is_new = claim.status != planned[uid]
            written[uid] = await self._binder.write(claim, planned[uid]) if is_new else claim

        await each([*planned], write)
        return written

    async def _any_bound(self, members: Iterable[PlacedMember]) -> bool:
        """Whether a pod of a plan has a node nevertheless, from somebody else; the server is asked."""
        for member in members:
            if await self._binder.has_node(member.waiting.pod):
                return True
        return False

    async def _take_back(self, plan: GangPlan, prepared: Sequence[BindingPreparation]) -> None:
        """Release everything that a plan has written."""
        users = {member.waiting.key for member in plan.members} | {plan.group.metadata.uid}
        claims = {claim.metadata.uid: claim for one in prepared for claim in one.promise.pending}
        for one in prepared:
            one.reserved.clear()  # all is released at once
        await each(prepared, self._binder.take_back)
        real = [claim for claim in claims.values() if claim.metadata.name != IN_MEMORY]
        await each(real, lambda claim: self.release(claim, users))

    async def release(self, claim: ResourceClaim, users: Collection[str]) -> None:
        """Take these users off a claim, and its devices if nobody else is listed. Gives up quietly where that fails."""
        name, namespace = claim.metadata.name, claim.metadata.namespace
        for _ in range(CONFLICTS_ENDURED):
            try:
                current = await self._client.get(ResourceClaim, name, namespace)
                if current.metadata.uid != claim.metadata.uid or current.status.allocation is None:
                    return
                left = tuple(one for one in current.status.reservedFor if one.uid not in users)
                status = replace(current.status, reservedFor=left) if left else ResourceClaimStatus()
                await self._client.patch_status(current, status)
                return
            except Conflict:
                continue
            except NotFound:
                return
            except ApiError as error:
                log.info("could not release claim %s/%s: %s", namespace, name, error)
                return


class GangRecovery:
    """Releases what an earlier scheduler has written for gangs of which no pod is bound."""

    def __init__(
        self,
        gangs: GangBinder,
        group: Callable[[str, str], PodGroup | None],
        members: Callable[[str, str], Iterable[Pod]],
        pod: Callable[[str, str], Pod | None],
    ) -> None:
        self._gangs = gangs
        self._group, self._members, self._pod = group, members, pod

    async def run(self, claims: Iterable[ResourceClaim]) -> None:
        """Look at all claims once, before anything is scheduled."""
        await each([claim for claim in claims if claim.status.allocation is not None], self._look_at)

    async def _look_at(self, claim: ResourceClaim) -> None:
        users = self.plan_users(claim)
        if users:
            log.info(
                "claim %s/%s was planned for a gang that is not bound", claim.metadata.namespace, claim.metadata.name
            )
            await self._gangs.release(claim, users)

    def plan_users(self, claim: ResourceClaim) -> set[str]:
        """The users of a claim that are of a gang without a bound pod: their uids."""
        namespace = claim.metadata.namespace
        found: set[str] = set()
        for one in claim.status.reservedFor:
            name = ""
            if podclaims.is_group(one):
                name = one.name
            elif podclaims.is_pod(one) and (pod := self._pod(namespace, one.name)) is not None:
                name = podclaims.group_name(pod) if pod.metadata.uid == one.uid else ""
            if name and self._is_unbound_gang(namespace, name):
                found.add(one.uid)
        return found

    def _is_unbound_gang(self, namespace: str, name: str) -> bool:
        group = self._group(namespace, name)
        if group is None or group.spec.schedulingPolicy.gang is None:
            return False
        return not any(map(podclaims.holds_devices, self._members(namespace, name)))
