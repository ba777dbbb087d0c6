"""How often something may be done: a rate in the long run, and a burst after a rest. Pure; callers wait by themselves."""

from __future__ import annotations

from collections.abc import Hashable

_REMEMBERED = 10_000  # who did something lately; beyond that, those who have rested are forgotten


class Pace:
    """Lets each of many go on `rate` times a second in the long run, and `burst` times at once."""

    def __init__(self, rate: float, burst: int) -> None:
        self._step = 1 / rate
        self._rest = burst / rate  # seconds of rest after which a whole burst is allowed again
        self._next: dict[Hashable, float] = {}  # when the next turn of each would be due if it had no rest

    def delay(self, now: float, who: Hashable = None) -> float:
        """How long somebody must wait for a turn that is wanted now; those who come first go first."""
        if who not in self._next and len(self._next) >= _REMEMBERED:
            self._next = {known: due for known, due in self._next.items() if due + self._rest > now}
        due = max(self._next.get(who, now - self._rest), now - self._rest) + self._step
        self._next[who] = due
        return max(0.0, due - now)
