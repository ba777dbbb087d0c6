"""Where the steps of requests run, and how results that a step lacks are computed.

A step runs on the event loop if it is short; the steps of large writes run in the worker thread. CEL expressions and
schemas that take more than 10 ms are evaluated in the worker process. The deadline only bounds how long a client
waits: the client gets 504 with Retry-After, as Kubernetes answers after 60 s. The deadline never makes an object
invalid; only limits on cost and steps do. The steps themselves are not part of this module.
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

QUICK = 0.01  # seconds of processor time that the event loop spends on the expressions of one object
_RETRY_SECONDS = 5


class RequestResolver(Resolver):
    """Computes results that the steps of requests lack. A failed computation becomes an API error of the request."""

    async def computed(self, user: str, need: Computing) -> Any:
        """Return the result of a computation in the background.

        Raises Timeout after 60 s, InternalError if the computation fails.
        """
        try:
            async with asyncio.timeout(BACKGROUND_SECONDS):
                return await super().computed(user, need)
        except TimeoutError:
            text = f"{need.kind} could not be checked within {BACKGROUND_SECONDS:g} s, try again later"
            raise Timeout(text, retryAfterSeconds=_RETRY_SECONDS) from None
        except ComputationFailed as error:
            raise InternalError(f"{need.kind} could not be checked: {error}") from error


def quickly() -> Interrupt:
    """Return a CEL interrupt that raises TooSlow after 10 ms of this thread's processor time.

    The clock decides only where an expression is evaluated, never its result: TooSlow restarts the evaluation in the
    worker process.
    """
    ends = time.thread_time() + QUICK

    def interrupt() -> bool:
        if time.thread_time() > ends:
            raise TooSlow
        return False

    return interrupt


def resolver_of_its_own() -> RequestResolver:
    """Return a RequestResolver with its own background process, for a server part used alone, as in tests."""
    return RequestResolver(Background())
