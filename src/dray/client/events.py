"""Writes core/v1 Events in the background, without delaying the work that they report.

Repeated events about the same object within a time window increase a counter. Bursts are written gradually, a few
events at a time, because writing an event costs a third of the work that it reports. Events are dropped and
counted as dropped when the queue is full, or when an object or controller exceeds its rate: events are
informative and need not be complete. While a server is briefly down, no events are lost: failed ones are retried
together with new ones. This module does not read events.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import NamedTuple

from dray.api.errors import AlreadyExists, ApiError, NotFound, ServiceUnavailable, Timeout, TooManyRequests
from dray.api.times import timestamp
from dray.api.types import core
from dray.api.types.meta import ObjectMeta
from dray.background.turns import WRITE, take
from dray.client.clock import Clock, SystemClock
from dray.client.interface import Client, Object
from dray.client.metrics import EVENTS_DROPPED, EVENTS_WRITTEN

log = logging.getLogger(__name__)

NORMAL = "Normal"
WARNING = "Warning"

# Repetitions within this time increase the count of one event, as in client-go.
_WINDOW_SECONDS = 600.0
# Maximum number of queued events, and of events tracked for counting. They bound memory and are far above normal bursts.
_QUEUE_LIMIT = 10_000
_REMEMBERED = 4096
# Burst and rate of different events about one object, or about all objects of one controller. Otherwise a controller
# with 30,000 pods would create as many events, which are kept for an hour, long after the pods are gone. The condition of a
# pod has the message of its event.
_BURST = 1000
_EVENTS_PER_SECOND = 1.0
# Events written concurrently: a store that waits for its disk writes many as fast as one.
_AT_ONCE = 16
# Pause between two batches so that other requests go first; it shrinks to zero as the queue fills up.
_PAUSE_SECONDS = 0.02
# Errors after which the event is retried. Number and interval of attempts are those of client-go: a server has two
# minutes to restart.
_LATER = (ServiceUnavailable, Timeout, TooManyRequests)
_TRIES = 12
_RETRY_SECONDS = 10.0
# The API server rejects longer messages.
_MESSAGE_BYTES = 1024


class _Identity(NamedTuple):
    """Fields in which two events must agree to be counted as one."""

    uid: str
    kind: str
    namespace: str
    name: str
    type: str
    reason: str
    message: str
    action: str = ""


@dataclass(slots=True)
class _CountedEvent:
    """An event with its count."""

    identity: _Identity
    name: str
    reference: core.ObjectReference
    first: float
    last: float
    count: int = 1
    written: int = 0  # count that has been written to the server
    failed: int = 0  # number of consecutive failed attempts
    is_waiting: bool = False  # whether the event is queued for writing or retry


class _Budgets:
    """Remaining number of events per object; grows over time."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # UID → (remaining events, time)

    def spend(self, uid: str, now: float) -> bool:
        """Use one event of the budget of an object (by uid) at time `now`. Returns False if the budget is exhausted."""
        left = _grown(*self._left.pop(uid, (float(_BURST), now)), now)
        allowed = left >= 1
        self._left[uid] = left - allowed, now
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
        return allowed

    def forget(self, now: float) -> None:
        """Forget the budgets that are complete again."""
        spent = ((uid, left) for uid, left in self._left.items() if _grown(*left, now) < _BURST)
        self._left = OrderedDict(spent)


def _grown(left: float, then: float, now: float) -> float:
    """Return the remaining events of a budget at `now`, from the number `left` at the earlier time `then` (seconds)."""
    return min(_BURST, left + (now - then) * _EVENTS_PER_SECOND)


class EventRecorder:
    """Writes events for one component; `record` returns immediately, `run` writes."""

    def __init__(
        self, client: Client, component: str, *, host: str = "", clock: Clock | None = None, limit: int = _QUEUE_LIMIT
    ) -> None:
        self._client = client
        self._written = EVENTS_WRITTEN.of(component)
        self._source = core.EventSource(component, host)
        self._clock = clock or SystemClock()
        self._limit = limit
        self._budgets = _Budgets()
        self._series: OrderedDict[_Identity, _CountedEvent] = OrderedDict()
        self._pending: deque[_CountedEvent] = deque()
        self._put_off: list[_CountedEvent] = []  # failed events, until the next retry
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def record(self, obj: Object, reason: str, message: str, type_: str = NORMAL, *, action: str = "") -> None:
        """Record an event about `obj`. `action` is one word for what was done, if the reason does not say it.

        A repetition within the time window only increases the count. The event is dropped if too many wait or the
        budget of the object is exhausted.
        """
        meta = obj.metadata
        identity = _Identity(meta.uid, obj.kind, meta.namespace, meta.name, type_, reason, _shortened(message), action)
        now = self._clock.time()
        series = self._series.get(identity)
        if series is not None and now - series.last < _WINDOW_SECONDS:
            series.count += 1
            series.last = now
        elif len(self._pending) + len(self._put_off) >= self._limit or not self._may_tell(meta, now):
            EVENTS_DROPPED.of(self._source.component).add()
            return
        else:
            series = self._begin(identity, _reference(obj), now)
        if not series.is_waiting:  # a queued event is written with the new count
            series.is_waiting = True
            self._pending.append(series)
            self._awake()

    def _may_tell(self, meta: ObjectMeta, now: float) -> bool:
        controller = next((reference.uid for reference in meta.ownerReferences if reference.controller), "")
        return self._budgets.spend(controller or meta.uid, now)

    def warning(self, obj: Object, reason: str, message: str) -> None:
        """Record an event of type Warning about `obj`."""
        self.record(obj, reason, message, WARNING)

    async def run(self) -> None:
        """Write recorded events until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                batch = [self._pending.popleft() for _ in range(min(_AT_ONCE, len(self._pending)))]
                await asyncio.gather(*map(self._write, batch))
                if len(batch) == _AT_ONCE:
                    await self._clock.sleep(_PAUSE_SECONDS * max(0.0, 1 - len(self._pending) / self._limit))
            self._idle.set()

    async def flush(self) -> None:
        """Wait until everything recorded so far was attempted once, without retries; needs a running `run`."""
        await self._idle.wait()

    def _awake(self) -> None:
        self._idle.clear()
        self._wake.set()

    def _begin(self, identity: _Identity, reference: core.ObjectReference, now: float) -> _CountedEvent:
        self._series.pop(identity, None)
        name = f"{identity.name}.{time.time_ns():x}"
        if not self._series:
            self._clock.call_later(_WINDOW_SECONDS, self._forget)
        series = self._series[identity] = _CountedEvent(identity, name, reference, now, now)
        if len(self._series) > _REMEMBERED:
            self._series.popitem(last=False)
        return series

    def _forget(self) -> None:
        """Forget the events whose count would not increase if they happened again."""
        now = self._clock.time()
        kept = ((identity, one) for identity, one in self._series.items() if now - one.last < _WINDOW_SECONDS)
        self._series = OrderedDict(kept)
        self._budgets.forget(now)
        if self._series:
            self._clock.call_later(_WINDOW_SECONDS, self._forget)

    async def _write(self, series: _CountedEvent) -> None:
        series.is_waiting = False
        identity, count, known = series.identity, series.count, series.written
        await take(WRITE)
        namespace = identity.namespace or "default"  # namespace of events about cluster-scoped objects
        try:
            if known and not await self._count_up(series, namespace):
                known = 0
            if not known:
                await self._create(series, namespace)
            series.written, series.failed = count, 0
            self._written.add()
        except ApiError as error:
            if not (isinstance(error, _LATER) and self._retry(series)):
                EVENTS_DROPPED.of(self._source.component).add()
            log.debug("event %s about %s %s was not written: %s", identity.reason, identity.kind, identity.name, error)

    def _retry(self, series: _CountedEvent) -> bool:
        """Put an event off to the common next retry. Returns False if it was attempted too often, and True otherwise."""
        series.failed += 1
        if series.failed == _TRIES:
            series.failed = 0  # a repetition gets the full number of attempts again
            return False
        if not series.is_waiting:  # otherwise the event was repeated in the meantime and is already queued
            if not self._put_off:
                self._clock.call_later(_RETRY_SECONDS, self._resume)
            series.is_waiting = True
            self._put_off.append(series)
        return True

    def _resume(self) -> None:
        self._pending.extendleft(reversed(self._put_off))
        self._put_off = []
        self._awake()

    async def _create(self, series: _CountedEvent, namespace: str) -> None:
        try:
            await self._client.create(core.Event, self._event(series, namespace))
        except AlreadyExists:  # an earlier attempt succeeded, but its response was lost
            await self._count_up(series, namespace)

    async def _count_up(self, series: _CountedEvent, namespace: str) -> bool:
        patch = {"count": series.count, "lastTimestamp": timestamp(series.last)}
        try:
            await self._client.patch(core.Event, series.name, patch, namespace)
        except NotFound:  # the event has expired
            return False
        return True

    def _event(self, series: _CountedEvent, namespace: str) -> core.Event:
        identity = series.identity
        return core.Event(
            metadata=ObjectMeta(name=series.name, namespace=namespace),
            involvedObject=series.reference,
            type=identity.type,
            reason=identity.reason,
            message=identity.message,
            action=identity.action,
            count=series.count,
            firstTimestamp=timestamp(series.first),
            lastTimestamp=timestamp(series.last),
            source=self._source,
            reportingComponent=self._source.component,
            reportingInstance=self._source.host,
        )


def _reference(obj: Object) -> core.ObjectReference:
    meta = obj.metadata
    return core.ObjectReference(
        apiVersion=obj.apiVersion,
        kind=obj.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
    )


def _shortened(message: str) -> str:
    data = message.encode()
    if len(data) <= _MESSAGE_BYTES:
        return message
    return data[: _MESSAGE_BYTES - 3].decode(errors="ignore") + "..."
