"""Answer the questions of a dashboard in the worker process, from a copy of the objects.

Python runs one thread at a time, and garbage collection stops all threads: with 5,000 nodes, a question answered in a
thread blocked the event loop for over a second. The worker process receives the changes since the last question, in
small batches, and drops its copies when no question comes for a while. The answers are in `answers`.
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

_IDLE_SECONDS = 120.0  # without questions, after which copies are dropped
_GRACE_SECONDS = 30.0  # in addition to the time of a question: for updating the copy and for earlier questions
_TURN_SECONDS = 0.005  # maximum time on the event loop for encoding changes
_COPIES = 8  # identities with copies; the one with the oldest question is dropped first
_OBJECTS = 200  # objects per update
_IN_ORDER = "analyst"  # job name: a question must follow the updates before it
_TRIES = 2  # attempts if the process has ended and lost its copy

_known: dict[str, Answers] = {}
"""Copies by key, in the worker process."""

NamespacedName = tuple[str, str]
T = TypeVar("T")
P = ParamSpec("P")
AnswersMethod = Callable[..., Any]
"""A method of `Answers`. Its first argument is the time limit in seconds."""


def _update(
    key: str,
    objects: list[Told],
    pools: dict[PoolName, PoolAnswer | None],
    hidden: Hidden,
    begins: FeatureGates | None,
    interrupt: Interrupt,
) -> None:
    """Apply changes to a copy, in the worker process.

    `begins` creates a new copy; without a copy, changes are ignored.
    """
    if begins is not None:
        _known[key] = Answers(begins)
    if key in _known:
        _known[key].take_over(objects, pools, hidden)
    if len(objects) + len(pools) >= _OBJECTS:  # a garbage collection of large copies would delay other computations
        gc.freeze()


def _forget(key: str, interrupt: Interrupt) -> None:
    """Drop the copy of one identity's objects, in the worker process.

    `key` names the identity. Does nothing if there is no copy.
    """
    if _known.pop(key, None) is not None:
        gc.unfreeze()


def _answer(key: str, question: AnswersMethod, arguments: tuple[Any, ...], interrupt: Interrupt) -> AnalystOutcome:
    """Return the outcome of a question from a copy, in the worker process.

    The outcome is lost if there is no copy for the key, and has the error if the question is refused.
    """
    if key not in _known:
        return AnalystOutcome(is_lost=True)
    try:
        return AnalystOutcome(question(_known[key], *arguments))
    except QuestionError as error:
        return AnalystOutcome(refused=(error.text, error.field, error.code, error.status))


class AnalystOutcome(NamedTuple):
    """Answer of the worker process; or the QuestionError as a tuple; or `is_lost` if the copy does not exist."""

    answer: Any = None
    refused: tuple[str, str, str, int] | None = None
    is_lost: bool = False


class _Copy:
    """The objects of one identity that the worker process has received."""

    def __init__(self) -> None:
        self.is_new = True
        self._objects: dict[type[Any], dict[NamespacedName, Any]] = {}
        self._pools: dict[PoolName, PublishedPool] = {}

    async def news(self, facts: ClusterFacts) -> AsyncIterator[tuple[list[Told], dict[PoolName, PoolAnswer | None]]]:
        """Yield the changes since the last call in batches of objects and pools, at least one batch.

        The last batch may be empty. A pool that is gone has the value None.
        """
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
        """Yield each changed object or pool name, and None for each unchanged one, so that the caller can pause."""
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
    """Return the devices of a pool for the worker process, or None if the pool is gone."""
    view = facts.pools.get(name)
    if view is None:
        return None
    numbers = {device: facts.number_of(DeviceId(*name, device)) for device in view.devices}
    devices = msgspec.json.encode([place.device for place in view.devices.values()])
    return PoolAnswer(
        name.driver, {device: number for device, number in numbers.items() if number is not None}, devices
    )


class ClusterAnalyst:
    """Answers questions in the worker process, each with a time limit.

    Sets of devices are ranges of row numbers, as the page receives them (`dray.web.tables.ranges`).
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
        """Return the answer to a question (a method of `Answers`) from these facts.

        Raises QuestionError or TimeoutError.
        """
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
        self, facts: ClusterFacts, seconds: float, question: AnswersMethod, arguments: tuple[Any, ...]
    ) -> AnalystOutcome:
        """Ask once, with a time limit. Returns the outcome. Raises TimeoutError after restarting the worker process."""
        try:
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                return await (await self._put(facts, question, (seconds, *arguments)))
        except TimeoutError:
            self._copies.clear()
            self._background.restart()
            raise

    async def _put(
        self, facts: ClusterFacts, question: AnswersMethod, arguments: tuple[Any, ...]
    ) -> asyncio.Task[AnalystOutcome]:
        """Send changes and the question to the worker process, in order. Returns the task of the answer."""
        async with self._telling:
            copy = self._copies.pop(facts.key, None) or _Copy()
            hidden = (facts.unreadable, facts.unserved, facts.partial)
            async for objects, pools in copy.news(facts):
                begins, copy.is_new = self._gates if copy.is_new else None, False
                self._begin(partial(_update, facts.key, objects, pools, hidden, begins))
            self._copies[facts.key] = copy  # moved to the end: the most recently used copy
            while len(self._copies) > _COPIES:
                oldest = next(iter(self._copies))
                del self._copies[oldest]
                self._begin(partial(_forget, oldest))
            return self._begin(partial(_answer, facts.key, question, arguments))

    def _begin(self, computation: Computation[T]) -> asyncio.Task[T]:
        """Start a computation in the worker process, after earlier ones. Returns its task."""
        return asyncio.create_task(self._background.compute(computation, "questions", job=_IN_ORDER))

    def _rest(self) -> None:
        """Drop all copies unless a question is being answered."""
        if not self._asking:
            for key in self._copies:
                self._begin(partial(_forget, key))
            self._copies.clear()


def _told(found: AnalystOutcome, question: AnswersMethod) -> Any:
    """Return the answer of an outcome.

    Raises QuestionError if the question was refused, RuntimeError if the worker process had no answer.
    """
    if found.refused is not None:
        text, field, code, status = found.refused
        raise QuestionError(text, field, code=code, status=status)
    if found.answer is None:
        raise RuntimeError(f"no answer to {question.__name__}: the process that answers has said why among its errors")
    return found.answer
