"""How much may be under way at once: requests, watches, or bytes of large bodies, of everybody together and of each user.

Whoever has taken a user's share is told to come back, so that one user cannot keep the others out. Members of
system:masters have no share of their own: whoever mends a cluster must get in. What has a place may still have to wait for
what the same user sent before (`OneByOne`).
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from weakref import WeakValueDictionary

from dray.api.errors import TooManyRequests
from dray.api.users import MASTERS, User
from dray.apiserver.wire.metrics import Metrics


class Slots:
    """Places for one kind of request."""

    def __init__(self, metrics: Metrics, what: str, most: int, most_of_user: int, retry_seconds: int) -> None:
        self._metrics = metrics
        self._what = what
        self._most = most
        self._most_of_user = most_of_user
        self._retry_seconds = retry_seconds
        self._of_user: dict[str, int] = {}
        self._taken = 0

    def taken(self, user: User, size: int = 1) -> Slot:
        """A place of a size for as long as the context lasts. Raises TooManyRequests if there is none left."""
        of_user = self._of_user.get(user.name, 0) + size
        if self._taken + size > self._most or (of_user > self._most_of_user and MASTERS not in user.groups):
            self._metrics.refused += 1
            text = f"too many {self._what}, please try again later"
            raise TooManyRequests(text, retryAfterSeconds=self._retry_seconds)
        self._of_user[user.name] = of_user
        self._taken += size
        return Slot(self, user.name, size)

    def give(self, user: str, size: int) -> None:
        """Give a place of a user back."""
        self._taken -= size
        if left := self._of_user[user] - size:
            self._of_user[user] = left
        else:
            del self._of_user[user]


class Slot:
    """One place that is taken."""

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
    """Lets the requests of one user be worked on one after the other. Nobody waits for another user.

    It is for what takes many times its size as long as it lasts: whoever sends much at once costs no more memory than
    somebody who sends the same in turn. Members of system:masters do not wait.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of who waits or is worked for

    def __len__(self) -> int:
        return len(self._locks)

    def turn(self, user: User) -> AbstractAsyncContextManager[None]:
        if MASTERS in user.groups:
            return nullcontext()
        lock = self._locks.get(user.name)
        if lock is None:
            lock = self._locks[user.name] = asyncio.Lock()
        return lock
