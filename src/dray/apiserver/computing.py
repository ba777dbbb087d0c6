"""Waits for computations in the background process on behalf of a request.

The deadline decides only how long a client waits: it is told to try again (504 with Retry-After), as Kubernetes does
after 60 s of a request. It never decides that an object is invalid; costs and steps do. Left out: what is computed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from dray.api.errors import Timeout
from dray.apiserver.limits import BACKGROUND_SECONDS
from dray.background import Background, Computation

_RETRY_SECONDS = 5
_requests = itertools.count()


async def computed(background: Background, computations: Sequence[Computation], what: str) -> None:
    """Wait until all computations are done, or the process that makes them has ended. Raises Timeout."""
    key = ("request", next(_requests))  # one request has one turn, however much it asks for
    jobs = [background.start(computation, key) for computation in computations]
    try:
        async with asyncio.timeout(BACKGROUND_SECONDS):
            await asyncio.shield(asyncio.gather(*(job.done for job in jobs)))
    except TimeoutError:
        text = f"{what} could not be checked within {BACKGROUND_SECONDS:g} s, try again later"
        raise Timeout(text, retryAfterSeconds=_RETRY_SECONDS) from None
    finally:
        for job in jobs:
            if not job.done.done():
                job.cancel()
