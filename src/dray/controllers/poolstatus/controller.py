"""Answers each ResourcePoolStatusRequest once, and deletes expired requests.

A request with an observation time is done. Other requests are answered from the informers' copies of slices, taint
rules and claims, once all have synced. If a requested pool lacks slices, it is checked again with growing delays for
a few seconds, since drivers publish slices one by one; then it is answered as it is. The status is written only if
nobody else changed the request; failed writes are retried with growing delays. The controller has its own client and
rate limit. Left out: counting (`computation`).
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
# Counting and writing a hundred pools takes about 5 ms, so a flood of requests costs scheduling in the same process a
# fortieth of its time. Occasional requests never wait.
CALLS_PER_SECOND = 5.0
CALLS_AT_ONCE = 50
# How long to wait for missing slices, and the first delay. `kubectl wait` in the KEP waits for 30 seconds.
INCOMPLETE_SECONDS = 8.0
_FIRST_LOOK_SECONDS = 0.25
_BY_DRIVER = "slices by driver"
_BY_POOL = "claims by pool"


class PoolStatusController:
    """Computes and writes the status of ResourcePoolStatusRequests, and deletes expired ones."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client_for(ACCOUNT)
        self._own_client = self._client is not context.client
        self._clock = context.clock
        # requests that wait for slices, by name: uid and start of waiting
        self._incomplete: dict[str, tuple[str, float]] = {}
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
        """Return the seconds until a request about incomplete pools is checked again.

        Returns 0 if it has waited long enough. The delay equals the time that the request has waited so far, so it
        doubles each time.
        """
        now, uid = self._clock.monotonic(), request.metadata.uid
        known, since = self._incomplete.get(request.metadata.name, ("", now))
        if known != uid:  # first check, or another request with the same name
            since = now
        self._incomplete[request.metadata.name] = uid, since
        waited = now - since
        return min(max(waited, _FIRST_LOOK_SECONDS), max(INCOMPLETE_SECONDS - waited, 0.0))

    async def _answer(self, request: ResourcePoolStatusRequest, status: Tree) -> None:
        started = time.perf_counter()
        try:
            await self._write(request, status)
        except NotFound:
            return  # the request was deleted meanwhile
        except Conflict:
            raise  # the informer's copy was behind; the request is read again
        except Invalid as error:
            # Somebody else wrote a status without an observation time. It cannot be replaced, and a retry would not
            # help.
            ERRORS.inc()
            log.warning("request %s cannot be answered: %s", request.metadata.name, error)
            return
        except ApiError:
            ERRORS.inc()
            raise
        PROCESSED.inc()
        DURATION.observe(time.perf_counter() - started)

    async def _turn(self) -> None:
        """Wait until the rate limit allows another request to be handled."""
        if (delay := self._pace.delay(self._clock.monotonic())) > 0:
            await self._clock.sleep(delay)

    def _status(self, request: ResourcePoolStatusRequest) -> tuple[Tree, bool]:
        """Return the status that answers a request, and whether a pool in it lacks slices.

        If the computation fails, the status says so, and the second value is False.
        """
        spec, now = request.spec, timestamp(self._clock.time())
        try:
            found = answer(
                self._slices_of(spec.driver),
                self._claims_of,
                spec.poolName,
                spec.limit or DEFAULT_LIMIT,
                spec.defaultPartitionTypeAttribute if self._partition_types else None,
            )
        except Exception as error:  # any failure must be reported to the client
            ERRORS.inc()
            log.exception("request %s: the computation failed", request.metadata.name)
            return failed_status(error, now), False
        return complete_status(found, now), any(pool.is_incomplete for pool in found.pools)

    def _slices_of(self, driver: str) -> list[ResourceSlice]:
        """Return a driver's slices with the taints of DeviceTaintRules; without partition types if their gate is off."""
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
            return  # deleted, or replaced by another request with the same name


def _is_answered(request: ResourcePoolStatusRequest) -> bool:
    return request.status is not None and request.status.observationTime is not None


def _without_types(slice_: ResourceSlice) -> ResourceSlice:
    if slice_.spec.partitionTypeAttribute is None:
        return slice_
    return replace(slice_, spec=replace(slice_.spec, partitionTypeAttribute=None))


def _seconds_left(request: ResourcePoolStatusRequest, now: float) -> float | None:
    """Return for how long an answered request is still kept, or None for ever. Counted from its latest condition.

    The result is negative once that time is over. None also applies to a request that is not answered yet. `now` is
    in seconds since 1970.
    """
    ttl, status = request.spec.ttlSecondsAfterComplete, request.status
    if ttl is None or status is None:
        return None
    times = [c.lastTransitionTime for c in status.conditions if c.type in ("Complete", "Failed")]
    ends = [parse_timestamp(at) for at in (*times, status.observationTime) if at]
    return max(ends) + ttl - now if ends else None


def _pools_held(claim: ResourceClaim) -> set[str]:
    """Return the pools (DRIVER/POOL) of which a claim holds devices."""
    return {f"{device.driver}/{device.pool}" for device in taken_by_claim(claim).touched}
