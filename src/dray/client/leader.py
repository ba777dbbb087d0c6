"""Leader election: of several processes, the one that holds a Lease and renews it in time leads.

The holder must stop before another process may start. It gives up if it could not renew within the renew
deadline, counted from the start of its last successful attempt. Others wait for the lease duration after the last
renewal they saw. Each process measures with its own clock, so clocks need not be synchronized. A process that was
paused, or whose machine was suspended, cannot notice in time that it must stop; therefore
`LeaderElection.require_lead` is called before each of its writes (`fence` of `dray.client.http.Http`). The Lease
is written with `update`, the verb that the roles of Kubernetes grant.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api.errors import ApiError, Forbidden, NotFound, ServiceUnavailable
from dray.api.times import micro_timestamp
from dray.api.types.coordination import Lease
from dray.api.wire import Tree
from dray.client.clock import Clock, SystemClock
from dray.client.interface import Client
from dray.client.metrics import CountFamily

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"


class LostLeadership(Exception):
    """Another process leads, or the lease could not be renewed in time."""


class LeaseExpired(ServiceUnavailable):
    """A write was not sent, because another process may be leading already."""


_LEADS = CountFamily(
    "leader_election_master_status", "1 while this process leads under the lease, else 0", ["name"], goes_down=True
)


@dataclass(frozen=True)
class LeaseSettings:
    """The Lease for the election, and its times in seconds, with the defaults of Kubernetes."""

    name: str
    namespace: str = NAMESPACE
    duration: float = 15.0  # time that others wait after the last renewal they saw
    renew_deadline: float = 10.0  # time without a renewal after which the leader gives up
    retry_period: float = 2.0  # time between two attempts to take or renew the lease

    def __post_init__(self) -> None:
        """Raise ValueError for times with which two processes could lead at once, or a lease shorter than 1 s."""
        if not 0 < self.retry_period < self.renew_deadline < self.duration:
            raise ValueError(
                "leaseDuration must be longer than renewDeadline, and that longer than retryPeriod, got "
                f"{self.duration:g}s, {self.renew_deadline:g}s and {self.retry_period:g}s"
            )
        if self.duration < 1:
            raise ValueError(f"leaseDuration must be at least 1s, got {self.duration:g}s")


class LeaderElection:
    """One candidate for one lease.

    `problem` says why the lease cannot be used; empty if it can. `answered` is set as soon as the server has
    accepted or rejected an attempt; a missing permission does not count.
    """

    def __init__(
        self, client: Client, lease: LeaseSettings | str, identity: str, *, clock: Clock | None = None
    ) -> None:
        self.identity = identity
        self.problem = ""
        self.answered = asyncio.Event()
        self._client = client
        self._lease = lease = LeaseSettings(lease) if isinstance(lease, str) else lease
        self._name = lease.name
        self._clock = clock or SystemClock()
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._renewed = 0.0  # start of the last successful attempt: others may count from any later time
        self._renewed_boot = 0.0  # the same time on the clock that includes suspended time
        self._leading = False
        self._told = ""  # leader that was logged last
        self._leads = _LEADS.of(lease.name)

    @property
    def leader(self) -> str:
        """The identity of the holder of the lease when it was last read; empty if none or if it was not read yet."""
        return (self._seen.spec.holderIdentity or "") if self._seen else ""

    def require_lead(self) -> None:
        """Raise LeaseExpired unless this process still leads, even if it or its machine was suspended."""
        if not self._leading or self._left() <= 0:
            raise LeaseExpired(f"not sent: {self.identity} may not lead {self._name} any more")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `lead` while renewing the lease. Releases the lease when `lead` ends.

        If the lease is lost, cancels `lead` and raises `LostLeadership`. Cancelling this method stops `lead`
        first and then releases the lease.
        """
        await self.acquire()
        work = asyncio.ensure_future(lead())
        renewal = asyncio.create_task(self._renew(), name=f"lease {self._name}")
        try:
            await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            renewing = not renewal.done()
            await _stop(work)
            await _stop(renewal)
            self._leading = False
            self._leads.value = 0
            if renewing:
                await self.release()
        if not renewing:
            renewal.result()
        work.result()

    async def acquire(self) -> None:
        """Wait until this process holds the lease."""
        while not await self._try(self._lease.renew_deadline) or self._left() <= 0:
            await self._clock.sleep(self._lease.retry_period)
        self._leading = True
        self._leads.value = 1

    async def release(self) -> None:
        """Release the lease if this process holds it, so that another process can lead immediately."""
        if self.leader != self.identity:
            return
        try:
            await self._write("", 1)
        except ApiError as error:
            log.debug("lease %s was not released: %s", self._name, error)

    async def _renew(self) -> None:
        attempted = self._renewed  # a slow response shortens the pause, it does not delay the next attempt
        while (left := self._left()) > 0:
            await self._clock.sleep(min(attempted + self._lease.retry_period - self._clock.monotonic(), left))
            if self._left() <= 0:
                break  # the process was paused, and another process may have led in the meantime
            attempted = self._clock.monotonic()
            if not await self._try(self._left()) and self.leader != self.identity:
                raise LostLeadership(f"lease {self._name} is held by {self.leader or 'nobody'}")
        raise LostLeadership(f"lease {self._name} was not renewed for {self._lease.renew_deadline:g} s")

    def _left(self) -> float:
        """Return the remaining seconds in which the lease must be renewed, negative if that time is over."""
        age = max(self._clock.monotonic() - self._renewed, self._clock.boot_time() - self._renewed_boot)
        return self._lease.renew_deadline - age

    async def _try(self, seconds: float) -> bool:
        """Take or renew the lease if permitted, within `seconds`. Returns whether this process holds it now.

        Returns False after an error, without a response in time, or if another process holds the lease.
        """
        attempted, attempted_boot = self._clock.monotonic(), self._clock.boot_time()
        if not await self._answered(seconds):
            return False
        self._renewed, self._renewed_boot = attempted, attempted_boot
        return True

    async def _answered(self, seconds: float) -> bool:
        attempt = asyncio.ensure_future(self._take())
        limit = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((attempt, limit), return_when=asyncio.FIRST_COMPLETED)
            took = attempt.done() and attempt.result()
            if attempt.done():
                self.problem = ""
                self.answered.set()
            return took
        except Forbidden as error:
            self._report(str(error))
            return False
        except ApiError as error:
            log.debug("lease %s: %s", self._name, error)
            return False
        finally:
            await _stop(attempt)
            await _stop(limit)

    def _report(self, refusal: str) -> None:
        where = f"{self._lease.namespace}/{self._name}"
        problem = f"the lease {where} cannot be used, it takes the verbs get, create and update: {refusal}"
        if problem != self.problem:
            log.error("%s", problem)
        self.problem = problem

    async def _take(self) -> bool:
        try:
            self._observe(await self._client.get(Lease, self._name, self._lease.namespace))
            if self.leader not in ("", self.identity) and self._clock.monotonic() < self._expiry():
                return False
            await self._write(self.identity, self._duration)
        except NotFound:
            self._seen = None
            await self._create()
        return True

    def _observe(self, lease: Lease) -> None:
        if self._seen is None or self._seen.metadata.resourceVersion != lease.metadata.resourceVersion:
            self._seen_at = self._clock.monotonic()
        self._seen = lease
        if self.leader and self.leader != self._told:
            self._told = self.leader
            log.info("%s: %s leads", self._name, "this process" if self.leader == self.identity else self.leader)

    @property
    def _duration(self) -> int:
        """The lease duration in whole seconds, rounded up so that no process takes over too early."""
        return math.ceil(self._lease.duration)

    def _expiry(self) -> float:
        promised = self._seen.spec.leaseDurationSeconds if self._seen else None
        return self._seen_at + (promised or self._duration)

    async def _create(self) -> None:
        now = micro_timestamp(self._clock.time())
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._duration,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        namespace = self._lease.namespace
        tree: Tree = {"metadata": {"name": self._name, "namespace": namespace}, "spec": spec}
        self._observe(await self._client.create(Lease, tree, namespace=namespace))

    async def _write(self, holder: str, seconds: int) -> None:
        """Write the lease as last seen, with a new holder or renewal time. Raises `Conflict` if it has changed."""
        assert self._seen is not None
        now = micro_timestamp(self._clock.time())
        tree: Tree = msgspec.to_builtins(self._seen)
        spec = tree.setdefault("spec", {})
        spec |= {"holderIdentity": holder or None, "leaseDurationSeconds": seconds, "renewTime": now}
        if holder != self.leader:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = (self._seen.spec.leaseTransitions or 0) + bool(holder)
        self._observe(await self._client.update(Lease, tree))


async def _stop(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
