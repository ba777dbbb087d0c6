"""Evicts pods whose devices are tainted NoExecute, by a slice or by a DeviceTaintRule.

A pod must leave, scheduled or not, if one of its entries resolves to a claim with such a device
(`dray.api.claim_users`), unless the claim tolerates the taint; other pods of the same group stay. A rule's status
shows its progress. `eviction_time` decides when a pod must leave. Left out: keeping new claims off tainted devices,
which the allocator does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec.structs import replace

from dray.api import podclaims
from dray.api.errors import Conflict, NotFound
from dray.api.taints import selects
from dray.api.times import parse_timestamp, timestamp
from dray.api.types.core import Pod
from dray.api.types.resource import (
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from dray.api.types.scheduling import PodGroup
from dray.client import Deltas, Key, change_status, key_of, with_conditions
from dray.client.consumers import ClaimConsumers
from dray.controllers.context import ControllerContext
from dray.controllers.eviction_time import NO_EXECUTE, EvictionTime, Tainted, eviction_time_of, seconds_tolerated
from dray.controllers.evictions import NO_EFFECT, Evictions, TaintedDevices, condition
from dray.controllers.nodes import disruption_target

WORKERS = 32
EVENT = "DeviceTaintManagerEviction"
BY_POOL = "by device pool"
# A pod created after the taint may replace an evicted pod; evicted at once, it would be replaced again and again.
REPLACEMENT_SECONDS = 2.0
STATUS_SECONDS = 1.0  # delay between a change of counts and the update of a rule's status


class TaintEviction:
    """Deletes pods whose devices have a NoExecute taint that their claims do not tolerate."""

    def __init__(self, context: ControllerContext) -> None:
        informers, sharing = context.informers, podclaims.Sharing.of(context.gates)
        self._client = context.client
        self._recorder = context.recorder
        self._clock = context.clock
        self._consumers = ClaimConsumers(informers, groups=sharing.groups)
        self._evictions = Evictions()
        # claim uid → resource version, epoch, eviction time
        self._times: dict[str, tuple[str, int, EvictionTime | None]] = {}
        self._epoch = 0  # incremented when a taint is added or removed
        self._tainted_slices: set[str] = set()
        self._evictor = context.controller("device_taint", self._pod, WORKERS)
        self._statuses = context.controller("device_taint_rule", self._rule)
        self._pods = informers.informer(Pod)
        self._claims = informers.informer(ResourceClaim)
        self._slices = informers.informer(ResourceSlice)
        self._rules = informers.informer(DeviceTaintRule)
        self._claims.add_index(BY_POOL, _pools_of)
        self._slices.add_index(BY_POOL, lambda piece: [f"{piece.spec.driver}/{piece.spec.pool.name}"])
        self._rules.add_handler(self._on_rules)
        self._slices.add_handler(self._on_slices)
        self._claims.add_handler(self._on_claims)
        self._pods.add_handler(self._on_pods)
        if sharing.groups:
            informers.informer(PodGroup).add_handler(self._on_groups)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._evictor.run())
            group.create_task(self._statuses.run())

    # -- event handlers

    def _on_rules(self, deltas: Deltas[DeviceTaintRule]) -> None:
        for old, new in deltas:
            if old is not None and new is not None and old.spec == new.spec:
                continue
            self._epoch += 1
            if new is None and old is not None:
                self._evictions.forget_rule(old.metadata.uid)
            elif new is not None:
                self._statuses.queue.add(new.metadata.name)
            for rule in (old, new):
                if rule is not None and rule.spec.taint.effect == NO_EXECUTE:
                    self._look_at({claim.metadata.uid: claim for claim, _ in self._allocated(rule)}.values())

    def _on_slices(self, deltas: Deltas[ResourceSlice]) -> None:
        for old, new in deltas:
            piece = new or old
            assert piece is not None
            before, after = _evicting(old), _evicting(new)
            if after:
                self._tainted_slices.add(piece.metadata.name)
            else:
                self._tainted_slices.discard(piece.metadata.name)
            if before != after:
                self._epoch += 1
                self._look_at(self._claims.by_index(BY_POOL, f"{piece.spec.driver}/{piece.spec.pool.name}"))

    def _on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        for old, new in deltas:
            if new is None and old is not None:
                self._times.pop(old.metadata.uid, None)
            before = old.status.allocation if old is not None else None
            if new is not None and new.status.allocation != before and self._anything_tainted:
                self._look_at([new])

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            if new is None:
                if old is not None:
                    self._settle(old)
            elif podclaims.has_claims(new) and self._anything_tainted:
                self._evictor.queue.add(key_of(new))

    def _on_groups(self, deltas: Deltas[PodGroup]) -> None:
        for old, new in deltas:
            if old is None and new is not None and self._anything_tainted:
                for pod in self._consumers.members(new.metadata.namespace, new.metadata.name):
                    self._evictor.queue.add(key_of(pod))

    def _look_at(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            for pod in self._consumers.consumers(claim.metadata.namespace, claim.metadata.name):
                self._evictor.queue.add(key_of(pod))

    @property
    def _anything_tainted(self) -> bool:
        return bool(self._tainted_slices) or len(self._rules) > 0

    def _allocated(self, rule: DeviceTaintRule) -> Iterator[tuple[ResourceClaim, DeviceRequestAllocationResult]]:
        """Yield the allocated devices that a rule selects, with their claims."""
        for claim in self._claims.list():
            for result in claim.status.allocation.devices.results if claim.status.allocation else ():
                if selects(rule, result.driver, result.pool, result.device):
                    yield claim, result

    # -- eviction times

    def _time_of(self, claim: ResourceClaim) -> EvictionTime | None:
        """Return when the pods of a claim must leave, or None. Cached, since thousands of pods may share a claim."""
        version, epoch, when = self._times.get(claim.metadata.uid, ("", 0, None))
        if version == claim.metadata.resourceVersion and epoch == self._epoch:
            return when
        when = None
        for result in claim.status.allocation.devices.results if claim.status.allocation else ():
            found = eviction_time_of(result, self._taints(result))
            when = found.joined(when) if found is not None else when
        self._times[claim.metadata.uid] = claim.metadata.resourceVersion, self._epoch, when
        return when

    def _taints(self, result: DeviceRequestAllocationResult) -> Iterator[Tainted]:
        for piece in self._current(result.driver, result.pool):
            for device in piece.spec.devices:
                if device.name == result.device:
                    yield from map(Tainted, device.taints)
        for rule in self._rules.list():
            if selects(rule, result.driver, result.pool, result.device):
                yield Tainted(rule.spec.taint, rule.metadata.uid)

    def _current(self, driver: str, pool: str) -> list[ResourceSlice]:
        """Return the slices of a pool's newest generation.

        Returns nothing for an unknown pool.
        """
        pieces = self._slices.by_index(BY_POOL, f"{driver}/{pool}")
        newest = max((piece.spec.pool.generation for piece in pieces), default=0)
        return [piece for piece in pieces if piece.spec.pool.generation == newest]

    def _eviction_time(self, pod: Pod) -> EvictionTime | None:
        """Return when a pod must leave because of any of its claims, or None.

        The earliest time of all claims counts.
        """
        eviction: EvictionTime | None = None
        for use in self._consumers.uses(pod):
            claim = self._claims.get(pod.metadata.namespace, use.claim) if use.claim else None
            when = self._time_of(claim) if claim is not None else None
            eviction = when.joined(eviction) if when is not None else eviction
        return eviction

    # -- pods

    async def _pod(self, key: Key) -> float | None:
        pod = self._pods.get(*key)
        if pod is None:
            return None
        if podclaims.is_finished(pod) or pod.metadata.deletionTimestamp is not None:
            self._settle(pod)
            return None
        eviction = self._eviction_time(pod)
        if eviction is None:
            if self._settle(pod):
                self._recorder.record(pod, EVENT, "Cancelling deletion")
            return None
        self._tell_rules(self._evictions.wait(pod, eviction.rules))
        left = self._due(pod, eviction) - self._clock.time()
        if left > 0:
            return left
        await self._evict(pod, eviction)
        return None

    def _due(self, pod: Pod, eviction: EvictionTime) -> float:
        """Return when a pod must leave. A pod created after the taint stays for at least `REPLACEMENT_SECONDS`.

        The result is in seconds since 1970.
        """
        born = parse_timestamp(pod.metadata.creationTimestamp) if pod.metadata.creationTimestamp else 0.0
        return max(eviction.due, born + REPLACEMENT_SECONDS) if born > eviction.since else eviction.due

    async def _evict(self, pod: Pod, eviction: EvictionTime) -> None:
        self._recorder.record(pod, EVENT, f"Marking for deletion: {eviction.why}")
        meta = pod.metadata
        text = "Device Taint manager: deleting due to NoExecute taint"  # the event names the device
        told = disruption_target("DeletionByDeviceTaintManager", text, self._clock.time())
        with suppress(NotFound, Conflict):  # deleted, or replaced by another pod with the same name
            await change_status(self._client, pod, lambda pod: with_conditions(pod.status, told))
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
            self._tell_rules(self._evictions.evicted(pod))

    def _settle(self, pod: Pod) -> bool:
        """Remove a pod's pending eviction and update its rules' status. Returns whether an eviction was pending."""
        rules = self._evictions.settle(pod)
        self._tell_rules(rules or ())
        return rules is not None

    def _tell_rules(self, uids: Iterable[str]) -> None:
        for uid in uids:
            for rule in self._rules.list():
                if rule.metadata.uid == uid:
                    self._statuses.queue.add_after(rule.metadata.name, STATUS_SECONDS)

    # -- rules

    async def _rule(self, name: str) -> float | None:
        rule = self._rules.get("", name)
        if rule is None:
            return None
        counts, reach = self._evictions.counts(rule.metadata.uid), TaintedDevices()
        if rule.spec.taint.effect == NO_EFFECT:
            counts = self._evictions.counted(self._would_leave(rule), rule.metadata.uid)
            reach = TaintedDevices(self._published(rule), sum(1 for _ in self._allocated(rule)))
        told = condition(rule, counts, reach, timestamp(self._clock.time()))
        if told is None:
            return None
        await self._client.patch_status(rule, with_conditions(rule.status, told))
        return None

    def _would_leave(self, rule: DeviceTaintRule) -> Iterator[Pod]:
        """Yield the pods that would be evicted if the rule's effect was NoExecute.

        Pods that have finished or are being deleted are left out, and pods that tolerate the taint for ever.
        """
        taint = replace(rule.spec.taint, effect=NO_EXECUTE)
        claims = {
            c.metadata.uid: c for c, r in self._allocated(rule) if seconds_tolerated(r.tolerations, taint) is not None
        }
        for claim in claims.values():
            for pod in self._consumers.consumers(claim.metadata.namespace, claim.metadata.name):
                if not podclaims.is_finished(pod) and pod.metadata.deletionTimestamp is None:
                    yield pod

    def _published(self, rule: DeviceTaintRule) -> int:
        """Return the number of devices in current slices that a rule selects."""
        pools = {(piece.spec.driver, piece.spec.pool.name) for piece in self._slices.list()}
        return sum(
            selects(rule, driver, pool, device.name)
            for driver, pool in pools
            if selects(rule, driver, pool)
            for piece in self._current(driver, pool)
            for device in piece.spec.devices
        )


def _pools_of(claim: ResourceClaim) -> set[str]:
    allocation = claim.status.allocation
    return {f"{r.driver}/{r.pool}" for r in allocation.devices.results} if allocation is not None else set()


def _evicting(piece: ResourceSlice | None) -> list[tuple[str, Tainted]]:
    """Return the NoExecute taints in a slice, each with its device."""
    devices = piece.spec.devices if piece is not None else ()
    return [(d.name, Tainted(taint)) for d in devices for taint in d.taints if taint.effect == NO_EXECUTE]
