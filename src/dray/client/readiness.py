"""Whether a part of the program can do its work, and what keeps it from that.

A part that is started alone answers `/readyz` with this. Left out: serving the answer, which belongs to the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

Check = Callable[[], Iterable[str]]
"""Returns what is wrong now; nothing when all is well."""


class Readiness:
    """Problems of one part, asked for whenever somebody wants to know."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self._started = asyncio.Event()

    def check(self, name: str, check: Check) -> None:
        """Ask `check` too from now on, instead of an earlier one of that name."""
        self._checks[name] = check

    def start(self) -> None:
        """The part works now, or stands by for the leader."""
        self._started.set()

    async def started(self) -> None:
        await self._started.wait()

    @property
    def problems(self) -> list[str]:
        """What keeps the part from its work, each problem once."""
        found = dict.fromkeys(problem for check in self._checks.values() for problem in check())
        return [*found] or ([] if self._started.is_set() else ["not started yet"])
