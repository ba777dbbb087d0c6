"""Reading container logs: the last lines, lines since a time, and lines that are still to come.

Log files have the format of container runtimes: time, stream, F for a whole line or P for a part of one, text. Left
out: access control (`logserver`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dray.api.times import parse_timestamp

_POLL_SECONDS = 0.1
_CHUNK_BYTES = 65536


class BadOption(ValueError):
    """A log option has an invalid value. The text names the option."""


@dataclass(frozen=True)
class LogOptions:
    """Options of a log request: which part of the log to return, and in which form.

    `tail` is a number of lines; None means no restriction.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    limit: int | None = None  # bytes
    since: float | None = None  # seconds since 1970

    @classmethod
    def of(cls, query: Mapping[str, str], now: float) -> LogOptions:
        """Parse the options from a request's query. Raises `BadOption` for an invalid value.

        `now` is in seconds since 1970; it is the base of `sinceSeconds`.
        """
        since = None
        if (seconds := _number(query, "sinceSeconds", 1)) is not None:
            since = now - seconds
        elif text := query.get("sinceTime"):
            try:
                since = parse_timestamp(text)
            except ValueError as error:
                raise BadOption(f"sinceTime: expected a time such as 2026-01-31T12:00:00Z, got {text!r}") from error
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
    """Yield the text of a log in pieces. With `follow`, continue with new output until the container has ended.

    `running` returns whether the container still runs. With a limit of bytes, the text is cut there.
    """
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
    """Yield the lines of a log in batches of one chunk, yielding to the event loop in between: a log may have 20 MiB.

    Lines are complete but without their newline. Ends at the end of the log, or when following, once `running`
    returns False and everything is read.
    """
    reader = _Growing(file, follow=options.follow)
    older = _older(file, reader)
    try:
        if options.tail is not None:
            await _seek_tail(older, reader.descriptor, options.tail)
        rest = b""
        while older is not None and (chunk := os.read(older, _CHUNK_BYTES)):
            *lines, rest = (rest + chunk).split(b"\n")
            yield _since(lines, options.since)
            await asyncio.sleep(0)
        while True:
            if (found := reader.lines()) is None:
                alive = options.follow and running()
                found = reader.lines()  # output written before the container ended is read after `running` was asked
                if found is None and not alive:
                    return
            if found is not None:
                yield _since(found, options.since)
            await asyncio.sleep(_POLL_SECONDS if found is None else 0)
    finally:
        reader.close()
        if older is not None:
            os.close(older)


class _Growing:
    """Reader of a log file that may grow and be rotated. Without `follow`, reads up to the current end only."""

    def __init__(self, file: Path, *, follow: bool) -> None:
        self._file = file
        self._follow = follow
        self.descriptor = _open(self._file)
        self._left = os.fstat(self.descriptor).st_size if self.descriptor is not None else 0
        self._rest = b""

    def lines(self) -> list[bytes] | None:
        """Return the complete lines of the next chunk, or None if no more data is available now.

        The list is empty if the chunk ends in the middle of its first line.
        """
        data = self._chunk()
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def _chunk(self) -> bytes:
        if not self._follow:
            return self._until_end()
        if self.descriptor is None:
            self.descriptor = _open(self._file)
        while self.descriptor is not None:
            current = self._is_current()  # checked before reading, so that output written before the rotation is read
            if (chunk := os.read(self.descriptor, _CHUNK_BYTES)) or current:
                return chunk
            os.close(self.descriptor)
            self.descriptor = _open(self._file)
        return b""

    def _until_end(self) -> bytes:
        """Return more of the data that existed at the beginning; new output may come faster than it is read.

        Returns b"" at that end or without a file.
        """
        if self.descriptor is None:
            return b""
        left = self._left - os.lseek(self.descriptor, 0, os.SEEK_CUR)
        return os.read(self.descriptor, max(0, min(left, _CHUNK_BYTES)))

    def _is_current(self) -> bool:
        assert self.descriptor is not None
        try:
            return os.fstat(self.descriptor).st_ino == self._file.stat().st_ino
        except FileNotFoundError:
            return True


def _older(file: Path, reader: _Growing) -> int | None:
    """Open the rotated file that precedes the current log. Returns its descriptor, or None if no such file exists."""
    found = _open(file.with_name(file.name + ".1"))
    if found is None or reader.descriptor is None:
        return found
    if os.path.sameopenfile(found, reader.descriptor):  # the log was rotated this moment
        os.close(found)
        return None
    return found


async def _seek_tail(older: int | None, newer: int | None, count: int) -> None:
    """Set both files to the position where the last `count` lines begin; a line includes all its parts.

    Each argument is a descriptor, or None if that file does not exist. With too few lines both begin at 0.
    """
    search = _TailSearch(count)
    for descriptor in (newer, older):
        if descriptor is not None:
            os.lseek(descriptor, await search.back_from_end(descriptor), os.SEEK_SET)
            if search.found and descriptor == newer and older is not None:
                os.lseek(older, 0, os.SEEK_END)
                return


class _TailSearch:
    """Counts lines backwards from the end of the current log and then from the end of the rotated log."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self._at_end = True
        self.found = False

    async def back_from_end(self, descriptor: int) -> int:
        """Return the offset at which the wanted lines begin in this file, or 0 if the file has too few of them.

        `found` then says whether the search is over.
        """
        start, rest = os.fstat(descriptor).st_size, b""
        while start > 0 and not self.found:
            size = min(start, _CHUNK_BYTES)
            start -= size
            data = os.pread(descriptor, size, start) + rest
            begin = data.find(b"\n") + 1 if start else 0  # the first line may have begun in the previous chunk
            offset = self._back(data[begin:], start + begin)
            if self.found:
                return offset
            rest = data[:begin]
            await asyncio.sleep(0)
        return 0

    def _back(self, data: bytes, offset: int) -> int:
        """Go back over the complete lines in `data`, which starts at `offset`. Returns the offset reached."""
        *lines, unfinished = data.split(b"\n")
        offset += len(data) - len(unfinished)
        for line in reversed(lines):
            if _is_whole(line) or self._at_end:
                if not self._missing:
                    self.found = True
                    return offset
                self._missing -= 1
            self._at_end = False
            offset -= len(line) + 1
        return offset


def _open(file: Path) -> int | None:
    try:
        return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def _since(lines: Iterable[bytes], since: float | None) -> list[bytes]:
    if since is None:
        return [*lines]
    return [line for line in lines if parse_timestamp(line.partition(b" ")[0].decode()[:26] + "+00:00") >= since]


def _is_whole(line: bytes) -> bool:
    return line.split(b" ", 3)[2:3] == [b"F"]


def _shown(lines: Iterable[bytes], timestamps: bool, within: bool) -> tuple[bytes, bool]:
    """Return the lines as text for users, and whether the last line is incomplete.

    Times are shown only before whole lines, not before their later parts. `within` says whether the first line
    continues an incomplete line. With `timestamps` each line begins with its time.
    """
    text = []
    for line in lines:
        stamp, _, rest = line.partition(b" ")
        _, kind, words = [*rest.split(b" ", 2), b"", b""][:3]
        if timestamps and not within:
            text.append(stamp + b" ")
        within = kind == b"P"
        text.append(words if within else words + b"\n")
    return b"".join(text), within
