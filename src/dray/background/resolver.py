"""Runs pure steps, obtaining what they need until they succeed.

A step that needs data requiring a wait raises `Lacking` with its needs. The resolver obtains them and runs the step
again: from a cache or on the event loop, by a function for each type of need, or in the worker process for a
`Computing`. A long step that cannot be interrupted runs in the worker thread. The choice depends on cost only; the
results are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from dray.api.needs import Lacking, StepNeed
from dray.background.background import Background, Computation
from dray.background.thread import in_thread

T = TypeVar("T")
Obtain = Callable[[Any], Awaitable[Any]]


class UnansweredQuestion(NamedTuple):
    """Returned by a computation that needs an answer which only the requesting process can give."""

    asked: Hashable


class Computing(StepNeed):
    """Need for the result of a computation in the worker process.

    With `answer`, the computation receives answers as its first argument.
    """

    def __init__(
        self,
        key: Hashable,
        kind: str,
        compute: Callable[..., Any],
        answer: Callable[[Any], Any] | None = None,
    ) -> None:
        self.key = key
        self.kind = kind
        self.compute = compute
        self.answer = answer


class Resolver:
    """Obtains what steps need. `obtaining` gives the function for each type of need."""

    def __init__(self, background: Background, obtaining: Mapping[type[StepNeed], Obtain] | None = None) -> None:
        self.background = background
        self._obtaining = obtaining or {}

    async def run(self, user: str, is_large: bool, step: Callable[..., T], *arguments: Any) -> T:
        """Run a step until it has all it needs. Returns its result.

        A large step runs in the worker thread, in its user's turn. Each time the step raises `Lacking`, its needs are
        obtained and it runs again from the beginning; other errors are raised.
        """
        while True:
            try:
                return await in_thread(user, step, *arguments) if is_large else step(*arguments)
            except Lacking as lacking:
                await self.obtain(user, lacking)

    async def go_on(self, lacking: Lacking, user: str, is_large: bool, step: Callable[..., T], *arguments: Any) -> T:
        """Continue a step that has raised `Lacking` once, and return its result. Avoids a coroutine for most steps."""
        await self.obtain(user, lacking)
        return await self.run(user, is_large, step, *arguments)

    async def obtain(self, user: str, lacking: Lacking) -> None:
        """Obtain all needs of a step and store them in `lacking.known`."""
        needs = [need for need in lacking.needs if need.key not in lacking.known]
        assert needs, f"a step does not find what it asks for: {lacking}"
        tasks = [asyncio.ensure_future(self._met(user, need)) for need in needs]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        lacking.known.update(zip((need.key for need in needs), found, strict=True))

    async def _met(self, user: str, need: StepNeed) -> Any:
        if isinstance(need, Computing):
            return await self.computed(user, need)
        return await self._obtaining[type(need)](need)

    async def computed(self, user: str, need: Computing) -> Any:
        """Return the result of a computation, answering its questions. Raises ComputationFailed."""
        if need.answer is None:
            return await self.background.compute(need.compute, need.kind, user)
        answers: dict[Hashable, Any] = {}
        compute: Computation[Any] = partial(need.compute, answers)
        while isinstance(found := await self.background.compute(compute, need.kind, user), UnansweredQuestion):
            answers[found.asked] = need.answer(found.asked)
        return found
