"""Reading container logs: the last lines, those since a moment, and what is still to come.

Files have the form that container runtimes write: time, stream, F for a whole line or P for a piece of one, text. Left
out: who may read (`logserver`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dray.api.times import parse_timestamp

_POLL_SECONDS = 0.1
_CHUNK_BYTES = 65536


class BadOption(ValueError):
    """A log option makes no sense; the text names it."""


@dataclass(frozen=True)
class LogOptions:
    """What part of a log is wanted, and how."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    limit: int | None = None  # bytes
    since: float | None = None  # seconds since 1970

    @classmethod
    def of(cls, query: Mapping[str, str], now: float) -> LogOptions:
        """Read the options of a request."""
        since = None
        if (seconds := _number(query, "sinceSeconds", 1)) is not None:
            since = now - seconds
        elif text := query.get("sinceTime"):
            try:
                since = parse_timestamp(text)
            except ValueError as error:
                raise BadOption(f"sinceTime: expected a time as 2026-01-31T12:00:00Z, got {text!r}") from error
        return cls(
            follow=_flag(query, "follow"),
            previous=_flag(query, "previous"),
            timestamps=_flag(query, "timestamps"),
            tail=_number(query, "tailLines", 0),
            limit=_number(query, "limitBytes", 1),
            since=since,
        )


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false")
    if text not in ("true", "false", "1", "0", ""):
        raise BadOption(f"{name}: expected true or false, got {text!r}")
    return text in ("true", "1", "")


def _number(query: Mapping[str, str], name: str, least: int) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < least:
        raise BadOption(f"{name}: expected a number from {least}, got {text!r}")
    return int(text)


async def read_log(file: Path, options: LogOptions, running: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """The text of a log in pieces; with `follow`, as it grows until the container has ended."""
    left, within = options.limit, False
    async for lines in _batches(file, options, running):
        text, within = _shown(lines, options.timestamps, within)
        if left is not None:
            text, left = text[:left], left - len(text)
        if text:
            yield text
        if left is not None and left <= 0:
            return


async def _batches(file: Path, options: LogOptions, running: Callable[[], bool]) -> AsyncIterator[list[bytes]]:
    older = _read(file.with_name(file.name + ".1"))
    reader = _Growing(file)
    try:
        lines = [*older.split(b"\n")[:-1], *reader.lines()]
        yield _last(_since(lines, options.since), options.tail)
        while options.follow:
            alive = running()  # asked before reading: what was written before the end is read after it
            more = reader.lines()
            if more:
                yield more
            elif not alive:
                return
            else:
                await asyncio.sleep(_POLL_SECONDS)
    finally:
        reader.close()


class _Growing:
    """A file that is written to, and that is set aside when it is full."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor = _open(self._file)
        self._rest = b""

    def lines(self) -> list[bytes]:
        """The whole lines that have come since the last time."""
        data = b"".join(self._chunks())
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _chunks(self) -> Iterator[bytes]:
        if self._descriptor is None:
            self._descriptor = _open(self._file)
        while self._descriptor is not None:
            current = self._is_current()  # asked before reading: what was written before the turn is read after it
            while chunk := os.read(self._descriptor, _CHUNK_BYTES):
                yield chunk
            if current:
                return
            os.close(self._descriptor)
            self._descriptor = _open(self._file)

    def _is_current(self) -> bool:
        assert self._descriptor is not None
        try:
            return os.fstat(self._descriptor).st_ino == self._file.stat().st_ino
        except FileNotFoundError:
            return True


def _open(file: Path) -> int | None:
    try:
        return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def _read(file: Path) -> bytes:
    descriptor = _open(file)
    if descriptor is None:
        return b""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read()


def _since(lines: Iterable[bytes], since: float | None) -> list[bytes]:
    if since is None:
        return [*lines]
    return [line for line in lines if parse_timestamp(line.partition(b" ")[0].decode()[:26] + "+00:00") >= since]


def _last(lines: list[bytes], count: int | None) -> list[bytes]:
    """The last lines, each with all its pieces."""
    if count is None:
        return lines
    start, seen = len(lines), 0
    for index in range(len(lines) - 1, -1, -1):
        if _is_whole(lines[index]) or index == len(lines) - 1:
            if seen == count:
                break
            seen += 1
        start = index
    return lines[start:]


def _is_whole(line: bytes) -> bool:
    return line.split(b" ", 3)[2:3] == [b"F"]


def _shown(lines: Iterable[bytes], timestamps: bool, within: bool) -> tuple[bytes, bool]:
    """Lines as they are read by people, their times before whole lines only; and whether the last one goes on."""
    text = []
    for line in lines:
        stamp, _, rest = line.partition(b" ")
        _, kind, words = [*rest.split(b" ", 2), b"", b""][:3]
        if timestamps and not within:
            text.append(stamp + b" ")
        within = kind == b"P"
        text.append(words if within else words + b"\n")
    return b"".join(text), within
