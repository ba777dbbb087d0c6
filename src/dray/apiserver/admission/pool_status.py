"""Limits on ResourcePoolStatusRequests, each of which makes a controller visit all claims.

Each user has a token bucket; an optional cap limits how many requests exist in the cluster. A controller deletes
completed requests.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from dray.api.errors import TooManyRequests
from dray.api.types.resource import ResourcePoolStatusRequest
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.read.reader import Reader, many


@dataclass(frozen=True)
class RequestLimits:
    """Limits on the rate and the number of ResourcePoolStatusRequests."""

    per_minute: float = 10  # sustained rate per user
    burst: int = 20  # of each user
    cap: int | None = None  # number of requests in the cluster; None: unlimited

    def __post_init__(self) -> None:
        for name, least in (("per_minute", 0.001), ("burst", 1), ("cap", 0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ValueError(f"pool status {name}: expected at least {least}, not {value}")


MANY_USERS = 10_000  # cached buckets; full ones are dropped first


class PoolStatusLimit(Admission):
    """Limits the rate of each user and the total number."""

    name = "ResourcePoolStatusLimit"
    types = (ResourcePoolStatusRequest,)

    def __init__(
        self,
        reader: Reader,
        limits: RequestLimits = RequestLimits(),  # noqa: B008 (frozen)
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._rate = limits.per_minute / 60
        self._burst = limits.burst
        self._cap = limits.cap
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # user → (tokens, time of that count)

    def validate(self, request: AdmissionRequest) -> None:
        """Raise TooManyRequests if the user's bucket is empty or the cluster has too many requests.

        Checks only the creation of ResourcePoolStatusRequests.
        """
        if request.operation != "CREATE" or not request.concerns(ResourcePoolStatusRequest) or request.subresource:
            return
        if self._cap is not None and sum(1 for _ in many(self._reader, ResourcePoolStatusRequest)) >= self._cap:
            raise _too_many(f"the cluster holds {self._cap} ResourcePoolStatusRequests; delete some first", 60)
        now = self._clock()
        tokens = self._tokens(request.user.name, now)
        if tokens < 1:
            wait = math.ceil((1 - tokens) / self._rate)
            text = f'user "{request.user.name}" creates ResourcePoolStatusRequests too fast; at most {self._rate * 60:g} per minute, {self._burst} at once'
            raise _too_many(text, wait)
        if not request.dry_run:
            self._buckets[request.user.name] = (tokens - 1, now)

    def _tokens(self, user: str, now: float) -> float:
        """Return how many requests a user may make at time `now`, as a token count with fractions.

        Drops full buckets if there are too many. A user without a bucket has a full one.
        """
        if len(self._buckets) > MANY_USERS:
            self._buckets = {
                name: bucket for name, bucket in self._buckets.items() if self._filled(bucket, now) < self._burst
            }
        return self._filled(self._buckets.get(user, (self._burst, now)), now)

    def _filled(self, bucket: tuple[float, float], now: float) -> float:
        """Return the tokens in a bucket at time `now`, at most the burst.

        A bucket is a pair: tokens, and the time when it had them.
        """
        return min(self._burst, bucket[0] + (now - bucket[1]) * self._rate)


def _too_many(text: str, seconds: int) -> TooManyRequests:
    return TooManyRequests(text, retryAfterSeconds=seconds)
