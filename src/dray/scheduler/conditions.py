"""Waits for binding conditions of devices before a pod is bound: PreBind of DynamicResources.

A driver may need minutes to attach a device and reports the result in the claim. Events of claims end the wait;
nothing is polled. The timeout starts at the allocation, so a restarted scheduler neither starts over nor waits
forever. Other pods continue meanwhile. Left out: what the conditions mean (`dray.api.binding_conditions`), and
deallocating claims whose devices do not become ready, which the next attempt does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from dray.api import podclaims
from dray.api.binding_conditions import BindingState, DeviceBinding, binding_deadline, device_binding, waiting_results
from dray.api.podclaims import Sharing
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.core.attempt import Promise
from dray.core.devices import FindClaim, version_of
from dray.scheduler.binding import Overtaken
from dray.scheduler.metrics import binding_ended
from dray.scheduler.pod_status import PodStatusWriter
from dray.scheduler.tasks import Tasks


class NotReady(Exception):
    """The devices of a claim did not become ready: the driver reported a failure, or the timeout passed."""

    def __init__(self, found: DeviceBinding) -> None:
        super().__init__(f"claim {found.claim}: device {found.device} is {found.state}, condition {found.condition}")
        self.found = found

    @property
    def status(self) -> str:
        """Metric label: "failure" if the driver reported a failure, "timeout" otherwise."""
        return "failure" if self.found.state is BindingState.FAILED else "timeout"


class _Wait:
    """Latest known versions of the claims that a pod waits for; None for a deleted claim."""

    def __init__(self, claims: Iterable[ResourceClaim]) -> None:
        self.claims: dict[str, ResourceClaim | None] = {claim.metadata.uid: claim for claim in claims}
        self.news = asyncio.Event()


class BindingConditions:
    """Waits of one scheduler's pods for their devices."""

    def __init__(
        self,
        timeouts: Mapping[str, float],
        sharing: Sharing,
        tasks: Tasks,
        pod_status: PodStatusWriter,
        find_claim: FindClaim,
        now: Callable[[], float],
    ) -> None:
        self._timeouts = timeouts  # by profile name
        self._sharing = sharing
        self._tasks = tasks
        self._pod_status = pod_status
        self._find_claim = find_claim
        self._now = now
        self._waits: dict[str, list[_Wait]] = {}  # by claim uid

    @property
    def has_waits(self) -> bool:
        """Whether any pod waits for its devices."""
        return bool(self._waits)

    def claim_changed(self, claim: ResourceClaim, *, gone: bool) -> None:
        """Pass a changed or deleted claim to the waits for this claim."""
        for wait in self._waits.get(claim.metadata.uid, ()):
            known = wait.claims[claim.metadata.uid]
            if gone or (known is not None and version_of(claim) >= version_of(known)):
                wait.claims[claim.metadata.uid] = None if gone else claim
                wait.news.set()

    async def ready(self, promise: Promise, written: Sequence[ResourceClaim]) -> None:
        """Wait until the devices of a pod's claims are ready. Returns at once if no device has binding conditions.

        Raises NotReady if a driver reports failure or the timeout passes, and Overtaken if a claim is no longer
        usable.
        """
        claims = [claim for claim in written if next(waiting_results(claim), None) is not None]
        if not claims:
            return
        pod, started, status = promise.claims.pod, self._now(), "error"
        try:
            await self._ready(pod, promise.node, claims)
            status = "success"
        except NotReady as error:
            status = error.status
            raise
        finally:
            drivers = {result.driver for claim in claims for result in waiting_results(claim)}
            binding_ended(pod.spec.schedulerName, drivers, status, self._now() - started)

    async def _ready(self, pod: Pod, node: str, claims: Sequence[ResourceClaim]) -> None:
        """Wait for the devices of these claims until the earliest deadline. Raises as `ready` does."""
        timeout = self._timeouts[pod.spec.schedulerName]
        latest = self._now() + timeout
        deadline = min(binding_deadline(claim, timeout) or latest for claim in claims)
        with self._following(claims) as wait:
            if (found := self._look(pod, wait)) is None:
                return
            self._pod_status.report_devices_pending(pod, node)
            with self._tasks.aside():
                while found is not None:
                    await self._news(wait, deadline, found)
                    found = self._look(pod, wait)

    async def _news(self, wait: _Wait, deadline: float, found: DeviceBinding) -> None:
        """Wait for the next event of a claim. Raises NotReady with `found` when the deadline passes.

        `deadline` is a time on this object's clock.
        """
        wait.news.clear()
        try:
            async with asyncio.timeout(max(0.0, deadline - self._now())):
                await wait.news.wait()
        except TimeoutError:
            raise NotReady(found) from None

    def _look(self, pod: Pod, wait: _Wait) -> DeviceBinding | None:
        """Return a binding that is still pending, or None if all devices are ready. Raises NotReady or Overtaken."""
        pending = None
        for claim in wait.claims.values():
            if claim is None or not podclaims.may_use(claim, pod, self._sharing):
                raise Overtaken("a resourceclaim was taken away while its devices were made ready")
            found = device_binding(claim)
            if found.state is BindingState.FAILED:
                raise NotReady(found)
            if found.state is BindingState.PENDING:
                pending = found
        return pending

    @contextmanager
    def _following(self, claims: Sequence[ResourceClaim]) -> Iterator[_Wait]:
        """Context manager: receive the events of these claims within the block."""
        wait = _Wait(map(self._newest, claims))
        for uid in wait.claims:
            self._waits.setdefault(uid, []).append(wait)
        try:
            yield wait
        finally:
            for uid in wait.claims:
                self._waits[uid].remove(wait)
                if not self._waits[uid]:
                    del self._waits[uid]

    def _newest(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the newer of the written claim and the informer's copy. A copy with another uid is ignored."""
        meta = claim.metadata
        seen = self._find_claim(meta.namespace, meta.name)
        is_newer = seen is not None and seen.metadata.uid == meta.uid and version_of(seen) > version_of(claim)
        return seen if seen is not None and is_newer else claim
