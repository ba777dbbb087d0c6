"""The claims of one pod, tried again until they are there, and until they are gone.

A failure is an event and a pause, from one second to a minute; a driver that comes ends the pause. Left out: the tries
themselves (`claims`).
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
    """Brings a pod to its claims and away from them."""

    def __init__(self, node: NodeContext, uid: str) -> None:
        self._node = node
        self._uid = uid
        self._backoff = Backoff(node.clock, initial=1.0, limit=60.0, jitter=lambda: 0.0)
        self._again = 0.0
        self._ending = False

    @property
    def next_try(self) -> float:
        """Seconds until the next try."""
        return max(0.0, self._again - self._node.clock.monotonic())

    def hurry(self) -> None:
        """Do not wait any longer, and begin with short pauses again."""
        self._again = 0.0
        self._backoff.reset()

    async def obstacle(self, pod: Pod, *, new: bool) -> ContainerWaits | None:
        """Why no container of the pod may be started yet; None when the pod has its claims."""
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
        """The gate is off: new pods run without devices; of those that had some nothing is started any more."""
        if self._node.claims.holds(self._uid):
            return ContainerWaits(DISABLED, f"{_OFF}: a pod that had devices is not started again")
        if new:
            self._node.recorder.warning(pod, DISABLED, f"{_OFF}: the pod runs without its devices")
        return None

    async def unprepared(self, pod: Pod | None) -> bool:
        """Let go of the claims, now that no container runs; False when that has to be tried again."""
        if not self._ending:  # what was put off while the pod was to run does not count
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
