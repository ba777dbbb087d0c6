"""Answers each ResourcePoolStatusRequest once, and deletes those whose time is up.

A request that has an observation time is done. Another one is counted from the shared copies of slices, taint rules and
claims, never before all are complete. While a pool that it asks about lacks slices, it is looked at again with growing
delays, for a few seconds, since drivers publish slices one by one; then it is answered as it is. Its status is written on condition that nobody wrote it meanwhile; what fails
is tried again with growing delays. The controller has a client and a pace of its own. Left out: counting (`computation`).
"""

from __future__ import annotations

import logging
import time

import msgspec
from msgspec.structs import replace

from dray.api.allocations import taken_by_claim
from dray.api.errors import ApiError, Conflict, Invalid, NotFound
from dray.api.pace import Pace
from dray.api.taints import with_rules
from dray.api.times import parse_timestamp, timestamp
from dray.api.types.resource import (
    DeviceTaintRule,
    ResourceClaim,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestStatus,
    ResourceSlice,
)
from dray.client import Deltas, Tree
from dray.controllers.context import ControllerContext
from dray.controllers.poolstatus.computation import DEFAULT_LIMIT, answer, complete_status, failed_status
from dray.controllers.poolstatus.metrics import DURATION, ERRORS, PROCESSED

log = logging.getLogger(__name__)

ACCOUNT = "resourcepoolstatusrequest-controller"
# To count a hundred pools and to write them takes about 5 ms, so a flood of requests costs scheduling in the same process
# a fortieth of its time; people who look now and then never wait.
CALLS_PER_SECOND = 5.0
CALLS_AT_ONCE = 50
# How long missing slices are waited for, and between the first two looks. `kubectl wait` in the KEP waits for 30 seconds.
INCOMPLETE_SECONDS = 8.0
_FIRST_LOOK_SECONDS = 0.25
_BY_DRIVER = "slices by driver"
_BY_POOL = "claims by pool"


class PoolStatusController:
    """Turns requests into answers."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client_for(ACCOUNT)
        self._own_client = self._client is not context.client
        self._clock = context.clock
        self._incomplete: dict[str, tuple[str, float]] = {}  # requests that wait for slices: uid and since when
        self._pace = Pace(CALLS_PER_SECOND, CALLS_AT_ONCE)
        self._controller = context.controller("resourcepoolstatusrequest", self._reconcile)
        self._slices = context.informers.informer(ResourceSlice)
        self._claims = context.informers.informer(ResourceClaim)
        self._rules = context.informers.informer(DeviceTaintRule) if context.gates.enabled("DRADeviceTaints") else None
        self._partition_types = context.gates.served("DRAPartitionableDevicesType")
        self._requests = context.informers.informer(ResourcePoolStatusRequest)
        self._slices.add_index(_BY_DRIVER, lambda one: [one.spec.driver])
        self._claims.add_index(_BY_POOL, _pools_held)
        self._requests.add_handler(self._on_requests)

    async def run(self) -> None:
        await self._slices.synced()
        await self._claims.synced()
        if self._rules is not None:
            await self._rules.synced()
        try:
            await self._controller.run()
        finally:
            if self._own_client:
                await self._client.aclose()

    def _on_requests(self, deltas: Deltas[ResourcePoolStatusRequest]) -> None:
        for _, new in deltas:
            if new is not None and (not _is_answered(new) or new.spec.ttlSecondsAfterComplete is not None):
                self._controller.queue.add(new.metadata.name)

    async def _reconcile(self, name: str) -> float | None:
        request = self._requests.get("", name)
        if request is None:
            self._incomplete.pop(name, None)
            return None
        if not _is_answered(request):
            await self._turn()
            status, is_incomplete = self._status(request)
            if is_incomplete and (patience := self._patience(request)) > 0:
                return patience
            self._incomplete.pop(name, None)
            await self._answer(request, status)
            return None
        left = _seconds_left(request, self._clock.time())
        if left is None or left > 0:
            return left
        await self._turn()
        await self._delete(request)
        return None

    # Answering

    def _patience(self, request: ResourcePoolStatusRequest) -> float:
        """Seconds until a request about incomplete pools is looked at again; 0 when it has waited long enough.

        The delay is as long as the request has waited already, so it doubles each time.
        """
        now, uid = self._clock.monotonic(), request.metadata.uid
        known, since = self._incomplete.get(request.metadata.name, ("", now))
        if known != uid:  # the first look, or another request of the same name
            since = now
        self._incomplete[request.metadata.name] = uid, since
        waited = now - since
        return min(max(waited, _FIRST_LOOK_SECONDS), max(INCOMPLETE_SECONDS - waited, 0.0))

    async def _answer(self, request: ResourcePoolStatusRequest, status: Tree) -> None:
        started = time.perf_counter()
        try:
            await self._write(request, status)
        except NotFound:
            return  # whoever asked did not wait
        except Conflict:
            raise  # the copy was behind; it will be read again
        except Invalid as error:
            # Somebody else wrote a status without an observation time. It stands, and trying again would not help.
            ERRORS.inc()
            log.warning("request %s cannot be answered: %s", request.metadata.name, error)
            return
        except ApiError:
            ERRORS.inc()
            raise
        PROCESSED.inc()
        DURATION.observe(time.perf_counter() - started)

    async def _turn(self) -> None:
        """Wait as long as keeps a flood of requests from taking more than its share of the process and the server."""
        if (delay := self._pace.delay(self._clock.monotonic())) > 0:
            await self._clock.sleep(delay)

    def _status(self, request: ResourcePoolStatusRequest) -> tuple[Tree, bool]:
        """The answer to a request, and whether a pool in it lacks slices."""
        spec, now = request.spec, timestamp(self._clock.time())
        try:
            found = answer(
                self._slices_of(spec.driver),
                self._claims_of,
                spec.poolName,
                spec.limit or DEFAULT_LIMIT,
                spec.defaultPartitionTypeAttribute if self._partition_types else None,
            )
        except Exception as error:  # whatever it is, whoever asked must learn of it
            ERRORS.inc()
            log.exception("request %s: the computation failed", request.metadata.name)
            return failed_status(error, now), False
        return complete_status(found, now), any(pool.is_incomplete for pool in found.pools)

    def _slices_of(self, driver: str) -> list[ResourceSlice]:
        """The slices of a driver, with the taints that rules add; without types of partitions where their gate is off."""
        rules = self._rules.list() if self._rules is not None else []
        slices = [with_rules(one, rules) for one in self._slices.by_index(_BY_DRIVER, driver)]
        return slices if self._partition_types else [_without_types(one) for one in slices]

    def _claims_of(self, driver: str, pool: str) -> list[ResourceClaim]:
        return self._claims.by_index(_BY_POOL, f"{driver}/{pool}")

    async def _write(self, request: ResourcePoolStatusRequest, status: Tree) -> None:
        await self._client.patch_status(request, msgspec.convert(status, ResourcePoolStatusRequestStatus))

    # Cleaning up

    async def _delete(self, request: ResourcePoolStatusRequest) -> None:
        try:
            await self._client.delete(ResourcePoolStatusRequest, request.metadata.name, uid=request.metadata.uid)
        except (NotFound, Conflict):
            return  # gone, or another one of the same name


def _is_answered(request: ResourcePoolStatusRequest) -> bool:
    return request.status is not None and request.status.observationTime is not None


def _without_types(slice_: ResourceSlice) -> ResourceSlice:
    if slice_.spec.partitionTypeAttribute is None:
        return slice_
    return replace(slice_, spec=replace(slice_.spec, partitionTypeAttribute=None))


def _seconds_left(request: ResourcePoolStatusRequest, now: float) -> float | None:
    """How long an answered request stays; None for ever. Counted from its last condition, good or bad."""
    ttl, status = request.spec.ttlSecondsAfterComplete, request.status
    if ttl is None or status is None:
        return None
    times = [c.lastTransitionTime for c in status.conditions if c.type in ("Complete", "Failed")]
    ends = [parse_timestamp(at) for at in (*times, status.observationTime) if at]
    return max(ends) + ttl - now if ends else None


def _pools_held(claim: ResourceClaim) -> set[str]:
    """The pools of which a claim holds devices."""
    return {f"{device.driver}/{device.pool}" for device in taken_by_claim(claim).touched}
