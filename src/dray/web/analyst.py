"""Who answers the questions of a dashboard, without a moment of the event loop: the worker process, from a copy of the objects.

Python runs one thread at a time, and collecting garbage stops all of them: with 5,000 nodes, questions in a thread held the
loop for more than a second. So they go to the worker process, which is told what has changed since the last question, in
small pieces. It forgets its copies when nobody has asked for a while. Left out: the answers (`answers`).
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

import msgspec

from dray.api.allocations import DeviceId
from dray.api.availability import PublishedPool
from dray.api.gates import FeatureGates
from dray.api.pools import PoolName
from dray.background import Background, Computation, Interrupt
from dray.client import key_of
from dray.web.access import ClusterFacts, QuestionError
from dray.web.answers import Answers, Hidden, PoolAnswer, Told

_IDLE_SECONDS = 120.0  # after which the copies are forgotten
_GRACE_SECONDS = 30.0  # beyond what a question may take: for the copy, and for others before it
_TURN_SECONDS = 0.005  # of the event loop for writing down what changed
_COPIES = 8  # identities whose objects are kept; the one that asked longest ago goes first
_OBJECTS = 200  # of a piece
_IN_ORDER = "analyst"  # a question is about what the updates before it say
_TRIES = 2  # where the process has ended and lost its copy

_known: dict[str, Answers] = {}
"""The copies, in the process that answers."""

NamespacedName = tuple[str, str]
T = TypeVar("T")
P = ParamSpec("P")
Question = Callable[..., Any]
"""A method of `Answers`. Its first argument are the seconds that it may take."""


def _update(
    key: str,
    objects: list[Told],
    pools: dict[PoolName, PoolAnswer | None],
    hidden: Hidden,
    begins: FeatureGates | None,
    interrupt: Interrupt,
) -> None:
    """Take over what changed. The first update begins a copy; one that finds none is of no use."""
    if begins is not None:
        _known[key] = Answers(begins)
    if key in _known:
        _known[key].take_over(objects, pools, hidden)
    if (
        len(objects) + len(pools) >= _OBJECTS
    ):  # a pass of the collector over large copies would hold up other computations
        gc.freeze()


def _forget(key: str, interrupt: Interrupt) -> None:
    """Drop a copy that is not needed any more."""
    if _known.pop(key, None) is not None:
        gc.unfreeze()


def _answer(key: str, question: Question, arguments: tuple[Any, ...], interrupt: Interrupt) -> AnalystOutcome:
    """Answer a question from a copy."""
    if key not in _known:
        return AnalystOutcome(is_lost=True)
    try:
        return AnalystOutcome(question(_known[key], *arguments))
    except QuestionError as error:
        return AnalystOutcome(refused=(error.text, error.field, error.code, error.status))


class AnalystOutcome(NamedTuple):
    """An answer, or why there is none: it is refused, or there is no copy to answer from."""

    answer: Any = None
    refused: tuple[str, str, str, int] | None = None
    is_lost: bool = False


class _Copy:
    """What the process has been told of one identity's objects."""

    def __init__(self) -> None:
        self.is_new = True
        self._objects: dict[type[Any], dict[NamespacedName, Any]] = {}
        self._pools: dict[PoolName, PublishedPool] = {}

    async def news(self, facts: ClusterFacts) -> AsyncIterator[tuple[list[Told], dict[PoolName, PoolAnswer | None]]]:
        """What has changed since the last time, in pieces; at least one."""
        told: list[Told] = []
        pools: dict[PoolName, PoolAnswer | None] = {}
        ends = time.perf_counter() + _TURN_SECONDS
        for one in self._changes(facts):
            if isinstance(one, PoolName):
                pools[one] = _pool(facts, one)
            elif one is not None:
                told.append(one)
            if time.perf_counter() > ends or len(told) + len(pools) >= _OBJECTS:
                yield told, pools
                told, pools = [], {}
                await asyncio.sleep(0)
                ends = time.perf_counter() + _TURN_SECONDS
        yield told, pools

    def _changes(self, facts: ClusterFacts) -> Any:
        hidden = facts.unreadable | facts.unserved
        for type_ in {*facts.objects, *(self._objects.keys() & hidden)}:
            before = self._objects.get(type_, {})
            after = self._objects[type_] = {}
            for one in facts.objects.get(type_, ()):
                key = key_of(one)
                after[key] = one
                yield (type_, key, msgspec.json.encode(one)) if before.pop(key, None) is not one else None
            yield from ((type_, key, None) for key in before)
        before_pools, self._pools = self._pools, dict(facts.pools)
        for name, view in facts.pools.items():
            yield name if before_pools.pop(name, None) is not view else None
        yield from before_pools


def _pool(facts: ClusterFacts, name: PoolName) -> PoolAnswer | None:
    view = facts.pools.get(name)
    if view is None:
        return None
    numbers = {device: facts.number_of(DeviceId(*name, device)) for device in view.devices}
    devices = msgspec.json.encode([place.device for place in view.devices.values()])
    return PoolAnswer(
        name.driver, {device: number for device, number in numbers.items() if number is not None}, devices
    )


class ClusterAnalyst:
    """Answers questions in the worker process, each within some seconds. All methods raise `QuestionError`.

    Sets of devices are ranges of numbers, as they are sent to the page (`dray.web.tables.ranges`).
    """

    def __init__(self, gates: FeatureGates | None = None, background: Background | None = None) -> None:
        self._gates = gates or FeatureGates()
        self._owns_background = background is None
        self._background = background or Background()
        self._copies: dict[str, _Copy] = {}
        self._telling = asyncio.Lock()
        self._resting: asyncio.TimerHandle | None = None
        self._asking = 0

    async def ask(
        self,
        facts: ClusterFacts,
        seconds: float,
        question: Callable[Concatenate[Answers, float, P], T],
        *arguments: P.args,
        **no_options: P.kwargs,
    ) -> T:
        """Answer a question, a method of `Answers`, about what the identity may read now."""
        self._asking += 1
        if self._resting is not None:
            self._resting.cancel()
        try:
            for _ in range(_TRIES):
                found = await self._outcome(facts, seconds, question, arguments)
                if not found.is_lost:
                    return cast(T, _told(found, question))
                self._copies.clear()
        finally:
            self._asking -= 1
            self._resting = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._rest)
        raise QuestionError("the process that answers has ended; ask again", code="NotReady", status=503)

    async def close(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        self._copies.clear()
        if self._owns_background:
            await self._background.close()

    async def _outcome(
        self, facts: ClusterFacts, seconds: float, question: Question, arguments: tuple[Any, ...]
    ) -> AnalystOutcome:
        try:
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                return await (await self._put(facts, question, (seconds, *arguments)))
        except TimeoutError:
            self._copies.clear()
            self._background.restart()
            raise

    async def _put(
        self, facts: ClusterFacts, question: Question, arguments: tuple[Any, ...]
    ) -> asyncio.Task[AnalystOutcome]:
        """Tell the worker process what has changed, and ask; one after the other, since it reads in order."""
        async with self._telling:
            copy = self._copies.pop(facts.key, None) or _Copy()
            hidden = (facts.unreadable, facts.unserved, facts.partial)
            async for objects, pools in copy.news(facts):
                begins, copy.is_new = self._gates if copy.is_new else None, False
                self._begin(partial(_update, facts.key, objects, pools, hidden, begins))
            self._copies[facts.key] = copy  # the last one that asked
            while len(self._copies) > _COPIES:
                oldest = next(iter(self._copies))
                del self._copies[oldest]
                self._begin(partial(_forget, oldest))
            return self._begin(partial(_answer, facts.key, question, arguments))

    def _begin(self, computation: Computation[T]) -> asyncio.Task[T]:
        return asyncio.create_task(self._background.compute(computation, "questions", job=_IN_ORDER))

    def _rest(self) -> None:
        """Forget all copies; the next question begins another."""
        if not self._asking:
            for key in self._copies:
                self._begin(partial(_forget, key))
            self._copies.clear()


def _told(found: AnalystOutcome, question: Question) -> Any:
    if found.refused is not None:
        text, field, code, status = found.refused
        raise QuestionError(text, field, code=code, status=status)
    if found.answer is None:
        raise RuntimeError(f"no answer to {question.__name__}: the process that answers has said why among its errors")
    return found.answer
