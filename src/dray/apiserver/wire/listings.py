"""Send lists as JSON, YAML or protobuf, in pieces made when the client is ready for them.

JSON is concatenated from stored bytes. YAML is encoded in the worker thread, because that is slow. Protobuf starts
with its length and must be complete before it is sent; the total size of these lists is limited.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from itertools import islice
from types import TracebackType
from typing import Any

import msgspec

from dray.apiserver.limits import Limits
from dray.apiserver.wire.answers import ListAnswer, yaml_text
from dray.apiserver.wire.bodies import JSON, PROTOBUF
from dray.apiserver.wire.pieces import Whole, gathered
from dray.background.thread import in_thread
from dray.background.turns import turns

_TOGETHER = 16  # items encoded as YAML per step


class Listing:
    """One list being sent, as an asynchronous context manager in which its pieces are read."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], content_type: bytes) -> None:
        self.pieces = pieces
        self.content_type = content_type

    async def __aenter__(self) -> Listing:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.pieces.aclose()


class Listings:
    """Encodes lists as JSON, YAML or protobuf for one server."""

    def __init__(self, limits: Limits) -> None:
        self._piece = limits.piece
        self.whole = Whole(limits.whole_answers)

    def open(self, user: str, answer: ListAnswer, media: str, pretty: bool) -> Listing:
        """Return a list in the requested media type, any other than JSON or protobuf as YAML.

        `pretty` indents short lists in JSON.
        """
        if media == JSON:
            return Listing(self._json(user, answer, pretty), b"application/json")
        if media == PROTOBUF:
            return Listing(self._protobuf(user, answer), PROTOBUF.encode())
        return Listing(self._yaml(user, answer), b"application/yaml")

    async def _json(self, user: str, answer: ListAnswer, pretty: bool) -> AsyncGenerator[bytes, None]:
        """Yield a list as JSON in pieces. Indented if `pretty`, but only if the list is shorter than one piece."""
        async with aclosing(turns().pieces(user, gathered(answer.parts(), self._piece))) as pieces:
            if pretty and answer.size() < self._piece:
                yield msgspec.json.format(b"".join([piece async for piece in pieces]), indent=2) + b"\n"
                return
            async for piece in pieces:
                yield piece

    async def _yaml(self, user: str, answer: ListAnswer) -> AsyncGenerator[bytes, None]:
        """Yield a list as YAML in pieces, encoded in the worker thread."""
        head = yaml_text(answer.tree)
        if not answer.versions:
            yield head + f"{answer.member}: []\n".encode()
            return
        head += f"{answer.member}:\n".encode()
        items = answer.trees()

        def some() -> bytes:
            return b"".join([yaml_text([item]) for item in islice(items, _TOGETHER)])

        while text := await in_thread(user, some):
            for piece in gathered((head, text), self._piece):
                if piece:
                    yield piece
            head = b""

    async def _protobuf(self, user: str, answer: ListAnswer) -> AsyncGenerator[bytes, None]:
        """Yield a list as protobuf. Raises TooManyRequests if the lists being encoded are too large together."""
        from dray.api import protobuf  # late: large, and only Go clients need it

        with self.whole.taken(answer.size()):
            parts = await turns().run(user, _encoded(answer.tree, answer))
            head = protobuf.envelope(answer.tree, sum(map(len, parts)))
            for piece in gathered((head, *parts), self._piece):
                if piece:
                    yield piece


def _encoded(tree: dict[str, Any], answer: ListAnswer) -> Generator[None, None, list[bytes]]:
    """Return the parts of a list in protobuf. A generator that yields after each item."""
    from dray.api import protobuf

    parts = [protobuf.encode_part(tree)]
    for item in answer.trees():
        parts.append(protobuf.encode_part(tree, item))
        yield
    return parts
