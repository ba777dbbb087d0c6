"""Computations of admission that do not wait, and what they need that takes waiting.

Expressions are evaluated on the event loop where that takes little time, and see objects in the version of their rule.
One that takes long, or a version that only a conversion webhook can make, is asked for by raising; it is found out, and
the computation is attempted again with what is known then. Left out: what is computed.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from dray.api.conversion import Unconverted
from dray.api.errors import InternalError
from dray.apiserver.custom.conversions import Conversions, remembering
from dray.background import Background, Interrupt

T = TypeVar("T")
SECONDS = 1.0  # what Kubernetes means its budget of cost to come to
Known = dict[Hashable, Any]  # what other processes found, by the plugin that asked


class Judging(ABC):
    """A judgement that another process makes; the verdict is None until it has."""

    verdict: Any = None

    @abstractmethod
    def judged(self, interrupt: Interrupt) -> Any:
        """What the verdict is."""

    def run(self, interrupt: Interrupt) -> bool:
        """It has its own limit, in seconds of the processor, and is not made in parts."""
        ends = time.thread_time() + SECONDS
        self.verdict = self.judged(lambda: time.thread_time() > ends)
        return True

    def found(self) -> Any:
        return self.verdict

    def accept(self, found: Any) -> None:
        self.verdict = found


class Elsewhere(Exception):
    """A verdict takes too long to be found out on the event loop."""

    def __init__(self, asked: Hashable, judging: Judging) -> None:
        self.asked = asked
        self.judging = judging


Missing = (Elsewhere, Unconverted)


class Attempts:
    """Makes computations again and again until nothing is missing."""

    def __init__(self, conversions: Conversions | None = None) -> None:
        self._conversions = conversions
        self._background = Background()

    async def settled(self, compute: Callable[[Known], T], missing: Exception | None = None) -> T:
        """What a computation comes to that leaves nothing behind where it raises; `missing` is what it lacked at first."""
        known: Known = {}
        with remembering():
            while True:
                try:
                    if missing is None:
                        return compute(known)
                    await self._find(missing, known)
                    missing = None
                except Missing as raised:
                    missing = raised

    async def _find(self, missing: Exception, known: Known) -> None:
        if isinstance(missing, Elsewhere):
            known[missing.asked] = await self._judged(missing.judging)
        elif isinstance(missing, Unconverted):
            assert self._conversions is not None, "a server with webhooks for conversion knows how to call them"
            await self._conversions.find(missing)

    async def _judged(self, judging: Judging) -> Any:
        job = self._background.start(judging)
        try:
            await asyncio.shield(job.done)
        finally:
            if not job.done.done():
                job.cancel()
        if judging.verdict is None:
            raise InternalError("an expression could not be evaluated: the process that does so has ended")
        return judging.verdict

    async def aclose(self) -> None:
        await self._background.close()
