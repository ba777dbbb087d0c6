"""Backoff for node groups: a failed group is closed for a while, twice as long after each consecutive failure.

No I/O; the current time is passed in.
"""

from __future__ import annotations

_LONGEST = 32  # limit of the pause, as a multiple of the first pause


class NodeGroupBackoff:
    """Groups that are closed after failures, with the end of their backoff."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def fail(self, group: str, now: float) -> float:
        """Record a failure of a group. Returns the seconds for which the group is closed.

        `now` is a time in seconds. The pause doubles with each failure, up to a limit.
        """
        self._failures[group] = self._failures.get(group, 0) + 1
        pause = self._seconds * min(_LONGEST, 2 ** (self._failures[group] - 1))
        self._until[group] = now + pause
        return float(pause)

    def succeed(self, group: str) -> None:
        """Record that nodes of a group arrived. Resets the group's backoff.

        The group is open again at once.
        """
        self._failures.pop(group, None)
        self._until.pop(group, None)

    def closed(self, now: float) -> list[str]:
        """Return the groups that are closed now, sorted.

        They are given by name. `now` is a time in seconds.
        """
        return sorted(group for group, until in self._until.items() if until > now)
