"""Releases claims that abandoned plans have left allocated for gangs without a bound pod.

These are plans of an earlier scheduler, plans that could not be withdrawn at once, and plans of gangs whose bound
pods ended before the other pods were bound. All claims are checked when the scheduler starts; later, only claims of
suspected gangs. A claim that a PodGroup has used before stays reserved for the group. Left out: releasing
(`gang_binding`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from dray.api import podclaims
from dray.api.times import parse_timestamp
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client import SharedInformers
from dray.core.gangs import GroupKey
from dray.core.objects import ObjectLookup
from dray.core.trial import NamespacedName
from dray.scheduler.gang_binding import GangBinder
from dray.scheduler.group_status import is_initially_scheduled
from dray.scheduler.tasks import each

PLAN_SECONDS = 10.0  # seconds that a plan of another scheduler may take until its first binding


class GangRecovery:
    """Finds and releases leftovers of plans."""

    def __init__(self, gangs: GangBinder, informers: SharedInformers, objects: ObjectLookup) -> None:
        self._gangs, self._objects = gangs, objects
        self._pods, self._groups = informers.informer(Pod), informers.informer(PodGroup)
        self._all_claims = informers.informer(ResourceClaim)
        self._suspects: set[GroupKey] = set()

    async def run(self) -> None:
        """Check all claims once, before anything is scheduled."""
        await self._look_at(self._all_claims.list(), patience=0.0)

    def suspect(self, gang: GroupKey) -> None:
        """Have the next check find out whether a gang without a bound pod holds devices."""
        self._suspects.add(gang)

    async def look_again(self, busy: Collection[GroupKey]) -> None:
        """Release claims held by suspected gangs, except `busy` gangs, for which this scheduler is writing a plan.

        Recently allocated claims may be part of another scheduler's plan and are left alone.
        """
        gangs = self._suspects.difference(busy)
        self._suspects -= gangs
        names = {name for gang in gangs for name in self._claims_of(*gang)}
        found = (self._objects.claim(*name) for name in names)
        await self._look_at([claim for claim in found if claim is not None], PLAN_SECONDS)

    def _claims_of(self, namespace: str, name: str) -> Iterable[NamespacedName]:
        """Yield the names of all claims of a gang and its pods, as (namespace, name).

        Yields nothing if the group is gone or no gang, or if a pod of the gang is bound. Names can repeat.
        """
        group = self._groups.get(namespace, name)
        if group is None or not self._is_unbound_gang(namespace, name):
            return
        yield from ((namespace, claim) for claim in podclaims.claims_of_group(group))
        for pod in self._objects.members(namespace, name):
            yield from ((namespace, use.claim) for use in self._objects.uses(pod) if use.claim)
            if (extended := self._objects.extended_resource_claim(pod)) is not None:
                yield namespace, extended.metadata.name

    async def _look_at(self, claims: Iterable[ResourceClaim], patience: float) -> None:
        """Release those of the claims that are held only by plans.

        Gangs whose claims cannot be released yet stay suspected.
        """
        planned = [(claim, self._plan_users(claim)) for claim in claims if claim.status.allocation is not None]

        async def release(plan: tuple[ResourceClaim, dict[str, GroupKey]]) -> None:
            claim, users = plan
            if _age(claim) < patience or not await self._gangs.release(claim, users.keys()):
                self._suspects |= {*users.values()}

        await each([(claim, users) for claim, users in planned if users], release)

    def _plan_users(self, claim: ResourceClaim) -> dict[str, GroupKey]:
        """Return the users of a claim that belong to gangs without a bound pod: gang by uid of the user.

        If reservedFor is empty, considers the pods that may use the claim, unless one of them has a node.
        """
        namespace = claim.metadata.namespace
        found: dict[str, GroupKey] = {}
        if not claim.status.reservedFor and not self._objects.is_in_use(claim):
            users = self._objects.consumers(namespace, claim.metadata.name)
            named = ((pod.metadata.uid, podclaims.group_name(pod)) for pod in users)
            return {uid: (namespace, name) for uid, name in named if name and self._is_unbound_gang(namespace, name)}
        for one in claim.status.reservedFor:
            name = ""
            if podclaims.is_group(one):
                group = self._groups.get(namespace, one.name)
                name = one.name if group is not None and not is_initially_scheduled(group) else ""
            elif podclaims.is_pod(one) and (pod := self._pods.get(namespace, one.name)) is not None:
                name = podclaims.group_name(pod) if pod.metadata.uid == one.uid else ""
            if name and self._is_unbound_gang(namespace, name):
                found[one.uid] = namespace, name
        return found

    def _is_unbound_gang(self, namespace: str, name: str) -> bool:
        """Whether the PodGroup exists, is a gang, and none of its pods has a node and still runs."""
        group = self._groups.get(namespace, name)
        if group is None or group.spec.schedulingPolicy.gang is None:
            return False
        return not any(map(podclaims.holds_devices, self._objects.members(namespace, name)))


def _age(claim: ResourceClaim) -> float:
    """Return the seconds since a claim was allocated, or PLAN_SECONDS if the claim has no allocation time."""
    allocation = claim.status.allocation
    written = allocation.allocationTimestamp if allocation is not None else None
    return time.time() - parse_timestamp(written) if written else PLAN_SECONDS
