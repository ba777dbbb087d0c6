"""Rate limiter with a long-term rate and a burst. Pure: callers do the waiting themselves."""

from __future__ import annotations

from collections.abc import Hashable

_REMEMBERED = 10_000  # maximum tracked callers; above that, callers that have rested are dropped


class Pace:
    """Limits each caller to `rate` actions per second in the long run, and `burst` actions at once."""

    def __init__(self, rate: float, burst: int) -> None:
        self._step = 1 / rate
        self._rest = burst / rate  # seconds without actions after which a full burst is allowed
        self._next: dict[Hashable, float] = {}  # caller → time at which its last action is due at the long-term rate

    def delay(self, now: float, who: Hashable = None) -> float:
        """Register an action of a caller. Returns the seconds that the caller must wait before it, at least 0.

        `now` is the current time in seconds; `who` is the caller, who has a limit of its own.
        """
        if who not in self._next and len(self._next) >= _REMEMBERED:
            self._next = {known: due for known, due in self._next.items() if due + self._rest > now}
        due = max(self._next.get(who, now - self._rest), now - self._rest) + self._step
        self._next[who] = due
        return max(0.0, due - now)
