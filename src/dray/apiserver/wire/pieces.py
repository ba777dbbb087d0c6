"""Long answers in pieces: made when the reader is ready, at most one piece ahead.

An answer is a sequence of parts of any size: small parts are joined, large ones are split. Parts of large objects are
views of cached bytes, so a thousand readers of one object share them. `answers` creates the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from dray.api.errors import TooManyRequests

Part: TypeAlias = bytes | memoryview
_PAUSE = 8  # parts after which the work may be interrupted; a part is an event or a few items


def gathered(parts: Iterable[Part], size: int) -> Iterator[bytes]:
    """Yield the parts as pieces of about `size` bytes. An empty piece marks a place where the work may pause.

    An empty part also causes an empty piece.
    """
    held: list[Part] = []
    length = since = 0
    for part in parts:
        since += 1
        if len(part) > size:
            yield b"".join(held)
            for start in range(0, len(part), size):
                yield bytes(part[start : start + size])
            held, length = [], 0
            continue
        held.append(part)
        length += len(part)
        if length >= size:
            yield b"".join(held)
            held, length, since = [], 0, 0
        elif since >= _PAUSE or not part:
            since = 0
            yield b""
    yield b"".join(held)


class Whole:
    """Byte budget for responses that cannot be streamed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Reserve `size` bytes for a response within the context.

        Raises TooManyRequests if others are reserved and the sum would exceed the limit. The only response may be
        larger.
        """
        if self._taken and self._taken + size > self._most:
            raise TooManyRequests("too many long answers are being sent, please try again later", retryAfterSeconds=1)
        self._taken += size
        try:
            yield
        finally:
            self._taken -= size
