"""Report a server that does not answer once, not once for each informer."""

from __future__ import annotations

import logging

from dray.api.errors import ServiceUnavailable
from dray.client.clock import Clock

log = logging.getLogger(__name__)

_SAME_SECONDS = 60.0  # failures that are closer to each other belong to one outage; informers retry more often


class Outage:
    """What the informers of one client know together about their server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: float | None = None

    def report(self, name: str, error: ServiceUnavailable) -> None:
        """Log the first failure of an outage as a warning, and further ones for debugging only."""
        now = self._clock.monotonic()
        is_known = self._last is not None and now - self._last < _SAME_SECONDS
        self._last = now
        if is_known:
            log.debug("%s: list or watch failed: %s", name, error)
        else:
            log.warning("%s, and perhaps others, cannot be listed or watched now and is tried again: %s", name, error)
