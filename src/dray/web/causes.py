"""Causes of waiting pods, as rows: pods with equal specs share a cause, found for one of them.

Finding causes runs in the worker process, only while a page is open, and for a small share of the time: the pause
after each round is several times as long as the round. `analyst` finds a cause.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec

from dray.api.types.core import Pod
from dray.client import Key
from dray.web.access import ClusterFacts, WaitingCause
from dray.web.analyst import ClusterAnalyst
from dray.web.answers import Answers
from dray.web.rows.claims import created
from dray.web.tables import RowTable

LOOK_SECONDS = 1.0  # between checks for waiting pods
_PAUSES = 10  # ratio of the pause to the round before it
_LONGEST_PAUSE_SECONDS = 20.0
_ROUND_SECONDS = 3.0  # limited, because users' questions wait for the end of a round
_UNTRIED_SECONDS = 3.0  # after which a pod that no scheduler has tried counts as waiting; most pods wait only briefly
_KINDS = 64  # of pods examined per round

ReadFacts = Callable[[], Awaitable[ClusterFacts]]


class CauseKind(NamedTuple):
    """Group of waiting pods with the same cause: one namespace and equal specs."""

    namespace: str
    spec: bytes


class Causes:
    """Finds why the waiting pods of a dashboard picture wait, and fills the table of causes."""

    def __init__(self, analyst: ClusterAnalyst, pods: RowTable, table: RowTable, waiting: Mapping[Key, Pod]) -> None:
        self._analyst = analyst
        self._pods = pods
        self._table = table
        self._waiting = waiting
        self._specs: dict[Key, tuple[Pod, CauseKind]] = {}
        self._known: dict[CauseKind, tuple[Key, WaitingCause]] = {}
        self._due = 0.0

    async def look(self, ask: ReadFacts) -> dict[Key, int]:
        """Return the row number of the cause of each waiting pod. Finds causes first if a round is due.

        The keys are (namespace, name). Pods without a known cause are left out.
        """
        kinds = self._kinds()
        if kinds and time.monotonic() >= self._due:
            await self._find_out(ask, kinds)
        self._known = {kind: known for kind, known in self._known.items() if kind in kinds}
        return self._rows(kinds)

    async def _find_out(self, ask: ReadFacts, kinds: Mapping[CauseKind, list[Key]]) -> None:
        """Run one round: ask for the cause of one pod of each kind, new kinds first.

        At most `_KINDS` pods are asked about. A pod without a cause keeps the cause that is known.
        """
        order = sorted(kinds, key=lambda kind: kind in self._known)[:_KINDS]  # new kinds first
        first = [kinds[kind][0] for kind in order]
        begun = time.monotonic()
        found = await self._analyst.ask(await ask(), _ROUND_SECONDS, Answers.causes, first)
        for kind, key, cause in zip(order, first, found, strict=True):
            if cause is not None:
                self._known[kind] = key, cause
        ended = time.monotonic()
        self._due = ended + min(_PAUSES * (ended - begun), _LONGEST_PAUSE_SECONDS)

    def _kinds(self) -> dict[CauseKind, list[Key]]:
        """Return the pods that wait for long, grouped by namespace and spec.

        The keys are (namespace, name).
        """
        self._specs = {key: known for key, known in self._specs.items() if key in self._waiting}
        kinds: dict[CauseKind, list[Key]] = {}
        for key, pod in self._waiting.items():
            if not _is_stuck(pod):
                continue
            known = self._specs.get(key)
            if known is None or known[0].spec is not pod.spec:
                known = self._specs[key] = pod, CauseKind(key[0], msgspec.json.encode(pod.spec))
            kinds.setdefault(known[1], []).append(key)
        return kinds

    def _rows(self, kinds: Mapping[CauseKind, list[Key]]) -> dict[Key, int]:
        """Update the rows of causes. Returns the row number of the cause of each pod."""
        together: dict[WaitingCause, list[Key]] = {}
        for kind, (like, cause) in self._known.items():
            members = kinds[kind]
            first = [like] if like in members else []
            together.setdefault(cause, []).extend(first + [key for key in members if key not in first])
        for gone in [key for key in self._table if key not in together]:
            self._table.drop(gone)
        found: dict[Key, int] = {}
        for cause, members in together.items():
            times = [at for key in members if key in self._waiting and (at := created(self._waiting[key].metadata))]
            row = (
                cause.code,
                cause.text,
                self._pods.find(members[0]),
                len(members),
                min(times, default=None),
            )
            self._table.put(cause, row)
            found |= dict.fromkeys(members, self._table.number(cause))
        return found


def _is_stuck(pod: Pod) -> bool:
    """Return whether a scheduler has refused the pod, or has not tried it for several seconds."""
    if pod.status.conditions and any(one.type == "PodScheduled" for one in pod.status.conditions):
        return True
    return time.time() - (created(pod.metadata) or 0.0) > _UNTRIED_SECONDS
