"""How much may be under way at once: requests, or watches, of everybody together and of each user.

Whoever has taken a user's share is told to come back, so that one user cannot keep the others out. Members of
system:masters have no share of their own: whoever mends a cluster must get in.
"""

from __future__ import annotations

from dray.api.errors import TooManyRequests
from dray.apiserver.security.user import MASTERS, User
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

    def taken(self, user: User) -> Slot:
        """A place for as long as the context lasts. Raises TooManyRequests if there is none left."""
        of_user = self._of_user.get(user.name, 0)
        if self._taken >= self._most or (of_user >= self._most_of_user and MASTERS not in user.groups):
            self._metrics.refused += 1
            text = f"too many {self._what}, please try again later"
            raise TooManyRequests(text, retryAfterSeconds=self._retry_seconds)
        self._of_user[user.name] = of_user + 1
        self._taken += 1
        return Slot(self, user.name)

    def give(self, user: str) -> None:
        """Give one place of a user back."""
        self._taken -= 1
        if left := self._of_user[user] - 1:
            self._of_user[user] = left
        else:
            del self._of_user[user]


class Slot:
    """One place that is taken."""

    __slots__ = ("_slots", "_user")

    def __init__(self, slots: Slots, user: str) -> None:
        self._slots = slots
        self._user = user

    def __enter__(self) -> None:
        pass

    def __exit__(self, *reason: object) -> None:
        self._slots.give(self._user)
