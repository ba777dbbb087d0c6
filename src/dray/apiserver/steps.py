"""The steps of requests: where they run, and what they lack.

A step runs on the event loop where that takes little time; the steps of large writes run in the worker thread. Expressions
and schemas that take more than 10 ms are left to the worker process. The deadline decides only how long a client waits: it
is told to try again (504 with Retry-After), as Kubernetes does after 60 s of a request. It never decides that an object is
invalid; costs and steps do. Left out: the steps themselves.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from dray.api.errors import InternalError, Timeout
from dray.apiserver.limits import BACKGROUND_SECONDS
from dray.background import Background, ComputationFailed
from dray.background.resolver import Computing, Resolver
from dray.cel.errors import TooSlow
from dray.cel.limits import Interrupt

QUICK = 0.01  # seconds of the thread's processor that the event loop spends on the expressions of one object
_RETRY_SECONDS = 5


class RequestResolver(Resolver):
    """Obtains what the steps of requests lack; what cannot be obtained is an error of the request."""

    async def computed(self, user: str, need: Computing) -> Any:
        """The result of a computation. Raises Timeout and InternalError."""
        try:
            async with asyncio.timeout(BACKGROUND_SECONDS):
                return await super().computed(user, need)
        except TimeoutError:
            text = f"{need.kind} could not be checked within {BACKGROUND_SECONDS:g} s, try again later"
            raise Timeout(text, retryAfterSeconds=_RETRY_SECONDS) from None
        except ComputationFailed as error:
            raise InternalError(f"{need.kind} could not be checked: {error}") from error


def quickly() -> Interrupt:
    """Ends with TooSlow what takes longer than an event loop can wait.

    The clock chooses the place and never the answer: what is too slow here begins again in the worker process.
    """
    ends = time.thread_time() + QUICK

    def interrupt() -> bool:
        if time.thread_time() > ends:
            raise TooSlow
        return False

    return interrupt


def resolver_of_its_own() -> RequestResolver:
    """For parts of a server that are used alone, as tests do."""
    return RequestResolver(Background())
