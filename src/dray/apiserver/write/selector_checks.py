"""Checks the device selectors and derived attributes of a write without holding up the event loop, however many and long they are.

Validation does not wait, so it is done twice where that is needed: the first time tells which selectors are not known
yet, which are then checked in another process; the second time finds what that said. Short selectors are checked at once,
up to a limit for each write. Requests take turns there, so one with many long selectors does not keep others waiting. Left
out: compiling (`dray.cel`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dray.api.gates import FeatureGates
from dray.api.validation import Complaint
from dray.apiserver.computing import computed
from dray.background import Background

if TYPE_CHECKING:
    from dray.cel import Features
    from dray.cel.checking import Checked

AT_ONCE = 512  # characters of selectors that a write may have checked on the loop: 20 ms at the worst, typically one
KEPT = 1024  # verdicts about short selectors: most objects are made from a few templates

Asked = tuple[str, bool]
"""An expression, and whether it is one of a derived attribute."""


class SelectorVerdict(NamedTuple):
    """What is wrong with an expression, and what it costs at most."""

    complaint: Complaint | None = None
    cost: int = 0


Verdicts = Mapping[Asked, SelectorVerdict]
NOT_KNOWN_YET = SelectorVerdict()


class SelectorChecks:
    """What is wrong with selectors and derived attributes, where these gates are on."""

    def __init__(self, gates: FeatureGates, background: Background | None = None) -> None:
        self._gates = gates
        self._background = background or Background()
        self._kept: dict[Asked, SelectorVerdict] = {}
        # Of the validation that is being done:
        self._known: Verdicts = {}
        self.missing: dict[Asked, None] = {}
        self._room = AT_ONCE

    def apart(self) -> SelectorChecks:
        """The same checks for one validation in another thread: it shares nothing that a validation writes to."""
        return SelectorChecks(self._gates, self._background)

    def check(self, expression: str) -> Complaint | None:
        """What is wrong with a selector; nothing for now where that must be found out first."""
        return self._verdict((expression, False)).complaint

    def check_derived(self, expression: str) -> tuple[Complaint | None, int]:
        """The same for a derived attribute, with what it costs at most."""
        return self._verdict((expression, True))

    def _verdict(self, asked: Asked) -> SelectorVerdict:
        for known in (self._kept, self._known):
            if asked in known:
                return known[asked]
        if len(asked[0]) > self._room:
            self.missing[asked] = None
            return NOT_KNOWN_YET
        self._room -= len(asked[0])
        return self._keep(asked, self._check(asked))

    def start(self, known: Verdicts) -> None:
        """Begin a validation, with what was found out for it before."""
        self._known, self._room = known, AT_ONCE
        if self.missing:
            self.missing = {}

    async def close(self) -> None:
        await self._background.close()

    async def find_out(self) -> Verdicts:
        """What the validation that has just been done lacked."""
        from dray.cel import checking

        expressions = list(self.missing)
        asked = [checking.ExpressionToCheck(*one) for one in expressions]
        work = checking.ExpressionChecking(asked, self._features)
        await computed(self._background, [work], f"the {len(expressions)} selectors")
        return {one: _verdict(work.checked[one]) if one in work.checked else self._check(one) for one in asked}

    @property
    def _features(self) -> Features:
        from dray.cel import Features

        served = self._gates.served
        return Features(served("DRAConsumableCapacity"), served("DRAListTypeAttributes"))

    def _check(self, asked: Asked) -> SelectorVerdict:
        from dray.cel import checking  # late: most servers start without a selector to check

        return _verdict(checking.check(checking.ExpressionToCheck(*asked), self._features))

    def _keep(self, asked: Asked, verdict: SelectorVerdict) -> SelectorVerdict:
        if len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[asked] = verdict
        return verdict


def _verdict(checked: Checked) -> SelectorVerdict:
    refusal = checked.refusal
    return SelectorVerdict(Complaint(refusal.reason, refusal.detail) if refusal is not None else None, checked.cost)
