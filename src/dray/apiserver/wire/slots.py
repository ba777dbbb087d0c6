"""Limits on concurrent requests, watches and bytes of large bodies, in total and per user.

A user above the limit gets 429 with Retry-After, so that one user cannot block others. Members of system:masters have
no per-user limit, so that administrators always get in. Admitted large requests of one user may still have to wait
for each other (`OneByOne`).
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from weakref import WeakValueDictionary

from dray.api.errors import TooManyRequests
from dray.api.users import MASTERS, User
from dray.apiserver.wire.metrics import Metrics


class Slots:
    """Limits on one kind of request: total and per user."""

    def __init__(self, metrics: Metrics, what: str, most: int, most_of_user: int, retry_seconds: int) -> None:
        self._metrics = metrics
        self._what = what
        self._most = most
        self._most_of_user = most_of_user
        self._retry_seconds = retry_seconds
        self._of_user: dict[str, int] = {}
        self._taken = 0

    def taken(self, user: User, size: int = 1) -> Slot:
        """Return a reserved slot of a size, as a context manager.

        Raises TooManyRequests if the total or the user's share would be exceeded. For members of system:masters only
        the total counts.
        """
        of_user = self._of_user.get(user.name, 0) + size
        if self._taken + size > self._most or (of_user > self._most_of_user and MASTERS not in user.groups):
            self._metrics.refused += 1
            text = f"too many {self._what}, please try again later"
            raise TooManyRequests(text, retryAfterSeconds=self._retry_seconds)
        self._of_user[user.name] = of_user
        self._taken += size
        return Slot(self, user.name, size)

    def give(self, user: str, size: int) -> None:
        """Release slots of a user that `taken` reserved."""
        self._taken -= size
        if left := self._of_user[user] - size:
            self._of_user[user] = left
        else:
            del self._of_user[user]


class Slot:
    """One reserved slot, released at the end of the context."""

    __slots__ = ("_size", "_slots", "_user")

    def __init__(self, slots: Slots, user: str, size: int) -> None:
        self._slots = slots
        self._user = user
        self._size = size

    def __enter__(self) -> None:
        pass

    def __exit__(self, *reason: object) -> None:
        self._slots.give(self._user, self._size)


class OneByOne:
    """Processes the requests of one user one after the other. Users do not wait for each other.

    Used for requests that temporarily need many times their size in memory, so that many at once need no more memory
    than one at a time. Members of system:masters do not wait.
    """

    def __init__(self) -> None:
        # of users with waiting or running requests
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    def turn(self, user: User) -> AbstractAsyncContextManager[None]:
        """Return an async context manager that waits for the user's turn. Members of system:masters never wait."""
        if MASTERS in user.groups:
            return nullcontext()
        lock = self._locks.get(user.name)
        if lock is None:
            lock = self._locks[user.name] = asyncio.Lock()
        return lock
