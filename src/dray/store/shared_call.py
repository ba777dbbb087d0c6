"""Answers many simultaneous calls with one request.

A consistent read needs the newest revision. A hundred simultaneous readers can share one request, as long as the
request starts after all of them have called.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

ResultType = TypeVar("ResultType")


class SharedCall(Generic[ResultType]):
    """Calls `ask` once for all callers that wait when the request starts. Later callers share the next request."""

    def __init__(self, ask: Callable[[], Awaitable[ResultType]]) -> None:
        self._ask = ask
        self._waiting: list[asyncio.Future[ResultType]] = []
        self._asking: asyncio.Task[None] | None = None

    async def __call__(self) -> ResultType:
        waiting: asyncio.Future[ResultType] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        if self._asking is None:
            self._asking = asyncio.create_task(self._run())
        return await waiting

    async def _run(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                try:
                    answer = await self._ask()
                except Exception as error:
                    for caller in waiting:
                        if not caller.done():
                            caller.set_exception(error)
                else:
                    for caller in waiting:
                        if not caller.done():
                            caller.set_result(answer)
        finally:
            self._asking = None
            for caller in self._waiting:
                caller.cancel()

    def close(self) -> None:
        """Cancel the current request and its callers."""
        if self._asking is not None:
            self._asking.cancel()
