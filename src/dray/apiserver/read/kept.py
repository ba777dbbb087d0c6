"""Encoded bytes that are kept for the next reader of the same state, bounded by their size rather than their number.

What nobody asks for any more after a while, such as an event that all watchers were told, can be bounded in time, too: it
goes then even if nothing comes after it.
"""

from __future__ import annotations

import asyncio

from dray.apiserver.limits import SHARED_BYTES


class EncodedCache:
    """Bytes by what they encode, up to a number of bytes; the oldest go first."""

    def __init__(self, most: int = SHARED_BYTES, seconds: float | None = None) -> None:
        """`seconds`: after so long, and before twice as long, a value is forgotten; None: never for that reason."""
        self._most = most
        self._seconds = seconds
        self._bytes = 0
        self._kept: dict[object, bytes] = {}
        self._settled = 0  # of the oldest: they were there at the last look
        self._is_looking = False
        self.get = self._kept.get

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, key: object, value: bytes) -> None:
        """Keep a value under a new key."""
        self._kept[key] = value
        self._bytes += len(value)
        while self._bytes > self._most:
            self._forget_oldest()
        if not self._is_looking and self._seconds is not None:
            self._is_looking = True
            asyncio.get_running_loop().call_later(self._seconds, self._look, self._seconds)

    def _look(self, seconds: float) -> None:
        """Forget what was there at the last look already; look again as long as there is something."""
        while self._settled > 0:
            self._forget_oldest()
        self._settled = len(self._kept)
        self._is_looking = bool(self._kept)
        if self._is_looking:
            asyncio.get_running_loop().call_later(seconds, self._look, seconds)

    def _forget_oldest(self) -> None:
        self._bytes -= len(self._kept.pop(next(iter(self._kept))))
        self._settled = max(0, self._settled - 1)
