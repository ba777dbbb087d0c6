"""Groups that failed are left alone for a while, twice as long after each failure in a row. Pure: time is passed in."""

from __future__ import annotations

_LONGEST = 32  # times the first pause


class NodeGroupBackoff:
    """Which groups are closed, and until when."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def fail(self, group: str, now: float) -> float:
        """A group failed; for how many seconds it is closed."""
        self._failures[group] = self._failures.get(group, 0) + 1
        pause = self._seconds * min(_LONGEST, 2 ** (self._failures[group] - 1))
        self._until[group] = now + pause
        return float(pause)

    def succeed(self, group: str) -> None:
        """Nodes of a group came: the next failure is the first one."""
        self._failures.pop(group, None)
        self._until.pop(group, None)

    def closed(self, now: float) -> list[str]:
        """The groups that are left alone now."""
        return sorted(group for group, until in self._until.items() if until > now)
