"""Prepares and unprepares the claims of one pod, with retries until that succeeds.

A failure causes an event and a pause of one second up to a minute; the pause ends early when a driver registers. Left
out: a single attempt (`claims`).
"""

from __future__ import annotations

import logging

from dray.api import podclaims
from dray.api.types.core import Pod
from dray.client.backoff import Backoff
from dray.node.claims import ClaimsError
from dray.node.context import NodeContext
from dray.node.lifecycle import ContainerWaits
from dray.node.status import CREATING

log = logging.getLogger(__name__)

PREPARE_FAILED = "FailedPrepareDynamicResources"
UNPREPARE_FAILED = "FailedUnprepareDynamicResources"
REQUEST_MISSING = "RequestNotInClaim"
DISABLED = "DevicesDisabled"
_OFF = "DynamicResourceAllocation is turned off on this node"


class PodClaimUser:
    """Prepares a pod's claims before it starts, unprepares them after it ends."""

    def __init__(self, node: NodeContext, uid: str) -> None:
        self._node = node
        self._uid = uid
        self._backoff = Backoff(node.clock, initial=1.0, limit=60.0, jitter=lambda: 0.0)
        self._again = 0.0
        self._ending = False

    @property
    def next_try(self) -> float:
        """Seconds until the next attempt.

        0 if an attempt is due now.
        """
        return max(0.0, self._again - self._node.clock.monotonic())

    def hurry(self) -> None:
        """End the current pause and reset the backoff."""
        self._again = 0.0
        self._backoff.reset()

    async def obstacle(self, pod: Pod, *, new: bool) -> ContainerWaits | None:
        """Prepare the pod's claims. Returns why no container may start yet, or None if the pod has its claims.

        `new` says that no container of the pod was started yet.
        """
        if not podclaims.has_claims(pod):
            return None
        if not self._node.devices:
            return self._without_devices(pod, new)
        if self._node.claims.is_prepared(pod):
            return None
        if self.next_try > 0:
            return CREATING
        try:
            lacking = await self._node.claims.prepare(pod)
        except ClaimsError as error:
            self._failed(pod, PREPARE_FAILED, f"Failed to prepare dynamic resources: {error}")
            return CREATING
        self._backoff.reset()
        for text in lacking:
            self._node.recorder.warning(pod, REQUEST_MISSING, text)
        return None

    def _without_devices(self, pod: Pod, new: bool) -> ContainerWaits | None:
        """Handle a pod while the gate DynamicResourceAllocation is off. Returns why the pod may not start, or None.

        New pods run without devices, with a warning event. A pod that already holds claims is not started again.
        """
        if self._node.claims.holds(self._uid):
            return ContainerWaits(DISABLED, f"{_OFF}: a pod that had devices is not started again")
        if new:
            self._node.recorder.warning(pod, DISABLED, f"{_OFF}: the pod runs without its devices")
        return None

    async def unprepared(self, pod: Pod | None) -> bool:
        """Unprepare the claims of a pod whose containers have ended. Returns False if another attempt is needed.

        Returns True at once if the pod holds no claims here, and False without an attempt during the pause after a
        failure. `pod` is None if the API has no such pod any more; then a failure causes no event.
        """
        if not self._ending:  # a pause from the time when the pod should run does not apply to its end
            self._ending = True
            self.hurry()
        if not self._node.claims.holds(self._uid):
            return True
        if self.next_try > 0:
            return False
        try:
            await self._node.claims.unprepare(self._uid)
        except ClaimsError as error:
            self._failed(pod, UNPREPARE_FAILED, f"Failed to unprepare dynamic resources: {error}")
            return False
        return True

    def _failed(self, pod: Pod | None, reason: str, message: str) -> None:
        self._again = self._node.clock.monotonic() + self._backoff.next_delay()
        if pod is not None:
            self._node.recorder.warning(pod, reason, message)
        log.info("pod %s: %s", self._uid, message)
