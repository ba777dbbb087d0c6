"""Tell users what happened: core/v1 Events, written in the background and never in the way of the work itself.

The same event about the same object within a window counts up instead of filling the store; when more come than can be
written, the surplus is dropped and counted, for an event is a help and not a record. Left out: reading events.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from dray.api.errors import ApiError, NotFound
from dray.api.types import core
from dray.api.types.meta import ObjectMeta
from dray.client.clock import Clock, SystemClock, timestamp
from dray.client.interface import Client, Object
from dray.client.metrics import EVENTS_DROPPED, EVENTS_WRITTEN

log = logging.getLogger(__name__)

NORMAL = "Normal"
WARNING = "Warning"

# Repetitions within this time count up one event; as Kubernetes' recorder does.
_WINDOW_SECONDS = 600.0
# Events that wait to be written, and events remembered for counting: bounds for memory, far above a normal burst.
_QUEUE_LIMIT = 1000
_REMEMBERED = 4096
# Events written at the same time: a store that waits for its disk takes many as quickly as one.
_AT_ONCE = 16
# Longer messages are refused by the API server.
_MESSAGE_BYTES = 1024


class _Identity(NamedTuple):
    """What makes two events the same."""

    uid: str
    kind: str
    namespace: str
    name: str
    type: str
    reason: str
    message: str


@dataclass
class _Series:
    """An event that is being counted."""

    name: str
    reference: core.ObjectReference
    first: float
    last: float
    count: int = 1
    written: int = 0  # the count that the server knows


class EventRecorder:
    """Writes events for one component; `record` returns at once, `run` does the writing."""

    def __init__(
        self, client: Client, component: str, *, host: str = "", clock: Clock | None = None, limit: int = _QUEUE_LIMIT
    ) -> None:
        self._client = client
        self._written = EVENTS_WRITTEN.labels(component)
        self._source = core.EventSource(component, host)
        self._clock = clock or SystemClock()
        self._limit = limit
        self._series: OrderedDict[_Identity, _Series] = OrderedDict()
        self._pending: dict[_Identity, None] = {}  # an ordered set
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def record(self, obj: Object, reason: str, message: str, type_: str = NORMAL) -> None:
        """Note that something happened to `obj`."""
        meta = obj.metadata
        identity = _Identity(meta.uid, obj.kind, meta.namespace, meta.name, type_, reason, _shortened(message))
        now = self._clock.time()
        series = self._series.get(identity)
        if series is not None and now - series.last < _WINDOW_SECONDS:
            series.count += 1
            series.last = now
        elif not self._begin(identity, _reference(obj), now):
            return
        self._pending[identity] = None
        self._idle.clear()
        self._wake.set()

    def warning(self, obj: Object, reason: str, message: str) -> None:
        """Note that something went wrong."""
        self.record(obj, reason, message, WARNING)

    async def run(self) -> None:
        """Write what is recorded, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                batch = [*islice(self._pending, _AT_ONCE)]  # each about another series
                for identity in batch:
                    del self._pending[identity]
                await asyncio.gather(*[self._write(identity, self._series[identity]) for identity in batch])
            self._idle.set()

    async def flush(self) -> None:
        """Wait until everything recorded so far is written; `run` must be running."""
        await self._idle.wait()

    def _begin(self, identity: _Identity, reference: core.ObjectReference, now: float) -> bool:
        if len(self._pending) >= self._limit:
            EVENTS_DROPPED.labels(self._source.component).inc()
            return False
        name = f"{identity.name}.{time.time_ns():x}"
        self._series[identity] = _Series(name, reference, now, now)
        self._series.move_to_end(identity)
        while len(self._series) > _REMEMBERED and next(iter(self._series)) not in self._pending:
            self._series.popitem(last=False)
        return True

    async def _write(self, identity: _Identity, series: _Series) -> None:
        count, known = series.count, series.written
        namespace = identity.namespace or "default"  # events about cluster-wide objects live there
        try:
            if known and not await self._count_up(series, namespace):
                known = 0
            if not known:
                await self._client.create(core.Event, self._event(identity, series, namespace))
            series.written = count
            self._written.inc()
        except ApiError as error:
            EVENTS_DROPPED.labels(self._source.component).inc()
            log.debug("event %s about %s %s was not written: %s", identity.reason, identity.kind, identity.name, error)

    async def _count_up(self, series: _Series, namespace: str) -> bool:
        patch = {"count": series.count, "lastTimestamp": timestamp(series.last)}
        try:
            await self._client.patch(core.Event, series.name, patch, namespace)
        except NotFound:  # events expire
            return False
        return True

    def _event(self, identity: _Identity, series: _Series, namespace: str) -> core.Event:
        return core.Event(
            metadata=ObjectMeta(name=series.name, namespace=namespace),
            involvedObject=series.reference,
            type=identity.type,
            reason=identity.reason,
            message=identity.message,
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
