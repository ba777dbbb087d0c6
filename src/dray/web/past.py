"""The map as it was: what the history has, in the words of the protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from dray.api.wire import Tree
from dray.web.access import QuestionError
from dray.web.history import ABSENT, DashboardHistory, Was
from dray.web.inventory import CLAIMS, STATE
from dray.web.tables import RowTable, Strings, ranges

_TURN_SECONDS = 0.005


async def past_tree(history: DashboardHistory, tables: Mapping[str, RowTable], strings: Strings, at: float) -> Tree:
    """What was different at a time. Raises QuestionError for one that is too long ago."""
    if not history.since <= at <= time.time():
        raise QuestionError(f"expected a time from {history.since:.0f} to now", "at")
    second = int(at)
    found: dict[int, Was] = {}
    ends = time.perf_counter() + _TURN_SECONDS
    for _ in history.back_to(second, found):
        if time.perf_counter() > ends:
            await asyncio.sleep(0)
            ends = time.perf_counter() + _TURN_SECONDS
    return _Then(history, tables, strings, found).tree(second)


class _Then:
    def __init__(
        self, history: DashboardHistory, tables: Mapping[str, RowTable], strings: Strings, found: Mapping[int, Was]
    ) -> None:
        self._history = history
        self._devices, self._claims = tables["devices"].rows, tables["claims"].rows
        self._strings = strings
        self._found = found

    def tree(self, at: int) -> Tree:
        now = self._devices
        different = [
            (number, was)
            for number, was in self._found.items()
            if was.state != ABSENT and number in now and was != (now[number][STATE], now[number][CLAIMS])
        ]
        return {
            "at": at,
            "from": self._history.since,
            "devices": {
                "id": [number for number, _ in different],
                "state": [was.state for _, was in different],
                "claims": [self._names(was) for _, was in different],
            },
            "absent": ranges(n for n, was in self._found.items() if was.state == ABSENT and n in now),
            "gone": [self._gone(n, was) for n, was in self._found.items() if was.state != ABSENT and n not in now],
        }

    def _names(self, was: Was) -> list[str]:
        return [self._name(number) for number in was.claims]

    def _name(self, claim: int) -> str:
        row = self._claims.get(claim)
        return self._history.claim_name(claim) if row is None else f"{self._strings.all[row[0]]}/{row[1]}"

    def _gone(self, number: int, was: Was) -> Tree:
        pool, name = self._history.device_name(number)
        return {"id": number, "pool": pool, "name": name, "state": was.state, "claims": self._names(was)}
