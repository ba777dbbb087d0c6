"""Readiness of a component: whether it can do its work, and which problems prevent that.

A component that runs alone returns this at `/readyz`; its command serves the endpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

ReadinessCheck = Callable[[], Iterable[str]]
"""Returns the current problems; empty if there are none."""


class Readiness:
    """Collects the current problems of one component from its checks."""

    def __init__(self) -> None:
        self._checks: dict[str, ReadinessCheck] = {}
        self._started = asyncio.Event()

    def check(self, name: str, check: ReadinessCheck) -> None:
        """Add a check, or replace the check with the same name."""
        self._checks[name] = check

    def start(self) -> None:
        """Mark the component as started: it works now, or stands by for the leader."""
        self._started.set()

    async def started(self) -> None:
        await self._started.wait()

    @property
    def problems(self) -> list[str]:
        """The current problems, without duplicates. Empty if the component is ready.

        A component without other problems that has not started yet has that as its only problem.
        """
        found = dict.fromkeys(problem for check in self._checks.values() for problem in check())
        return [*found] or ([] if self._started.is_set() else ["not started yet"])
