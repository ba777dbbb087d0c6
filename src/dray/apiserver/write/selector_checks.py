"""Checks the device selectors of a write without holding up the event loop, however many and long they are.

Validation does not wait, so it is done twice where that is needed: the first time tells which selectors are not known
yet, which are then checked in another process; the second time finds what that said. Short selectors are checked at once,
up to a limit for each write. Requests take turns there, so one with many long selectors does not keep others waiting. Left
out: compiling (`dray.cel`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from dray.api.errors import FieldError, Timeout
from dray.api.validation import Complaint
from dray.background import Background

if TYPE_CHECKING:
    from dray.cel.selector import Refusal

AT_ONCE = 512  # characters of selectors that a write may have checked on the loop: 20 ms at the worst, typically one
KEPT = 1024  # verdicts about short selectors: most objects are made from a few templates
SECONDS = 30.0  # after which a write is refused that has more selectors than can be checked

Validate = Callable[[], list[FieldError]]


class SelectorChecks:
    """What is wrong with selectors."""

    def __init__(self) -> None:
        self._background = Background()
        self._kept: dict[str, Complaint | None] = {}
        # Of the validation that is being done:
        self._known: dict[str, Complaint | None] = {}
        self._unknown: dict[str, None] = {}
        self._room = AT_ONCE

    def check(self, expression: str) -> Complaint | None:
        """What is wrong with a selector; nothing for now where that must be found out first."""
        for known in (self._kept, self._known):
            if expression in known:
                return known[expression]
        if len(expression) > self._room:
            self._unknown[expression] = None
            return None
        self._room -= len(expression)
        return self._keep(expression, _complaint(_check(expression)))

    def validated(self, validate: Validate) -> list[FieldError] | None:
        """What validation finds wrong; None where it takes waiting to know (`waited_for`), which is rare."""
        if self._unknown:
            self._unknown = {}
        self._room = AT_ONCE
        errors = validate()
        return None if self._unknown else errors

    async def waited_for(self, validate: Validate) -> list[FieldError]:
        """What the validation that has just been done finds wrong, with every selector checked."""
        known = await self._find_out(list(self._unknown))
        self._known, self._room = known, AT_ONCE
        try:
            return validate()
        finally:
            self._known = {}

    async def close(self) -> None:
        await self._background.close()

    async def _find_out(self, expressions: list[str]) -> dict[str, Complaint | None]:
        from dray.cel.checking import SelectorChecking

        checking = SelectorChecking(expressions)
        job = self._background.start(checking)
        try:
            async with asyncio.timeout(SECONDS):
                await asyncio.shield(job.done)
        except TimeoutError:
            raise Timeout(f"the {len(expressions)} selectors could not be checked within {SECONDS:.0f} s") from None
        finally:
            if not job.done.done():
                job.cancel()
        refusals = checking.refusals
        return {one: _complaint(refusals[one] if one in refusals else _check(one)) for one in expressions}

    def _keep(self, expression: str, complaint: Complaint | None) -> Complaint | None:
        if len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[expression] = complaint
        return complaint


def _check(expression: str) -> Refusal | None:
    from dray.cel.selector import check_selector  # late: most servers start without a selector to check

    return check_selector(expression)


def _complaint(refusal: Refusal | None) -> Complaint | None:
    return Complaint(refusal.reason, refusal.detail) if refusal is not None else None
