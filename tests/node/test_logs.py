"""Reading logs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from dray.node.logs import BadOption, LogOptions, read_log
from tests.waiting import within


def line(second: int, text: str, kind: str = "F", stream: str = "stdout") -> str:
    return f"2026-01-31T12:00:{second:02}.123456789Z {stream} {kind} {text}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("".join(line(n, f"line {n}") for n in range(5)) + line(5, "long ", "P") + line(5, "line"))
    return path


def fill(file: Path, text: str) -> None:
    file.write_text(text)


def append(file: Path, text: str) -> None:
    with file.open("a") as stream:
        stream.write(text)


def set_aside(file: Path) -> None:
    file.rename(file.with_name("log.1"))


async def read(file: Path, **options: object) -> str:
    pieces = read_log(file, LogOptions(**options), lambda: False)  # type: ignore[arg-type]  # fields by name
    return b"".join([piece async for piece in pieces]).decode()


async def test_a_whole_log(file: Path) -> None:
    assert await read(file) == "line 0\nline 1\nline 2\nline 3\nline 4\nlong line\n"


@pytest.mark.parametrize(
    ("tail", "text"),
    [
        (0, ""),
        (1, "long line\n"),
        (2, "line 4\nlong line\n"),
        (99, "line 0\nline 1\nline 2\nline 3\nline 4\nlong line\n"),
    ],
)
async def test_the_last_lines(file: Path, tail: int, text: str) -> None:
    assert await read(file, tail=tail) == text


async def test_a_line_without_end_is_the_last_line(file: Path) -> None:
    fill(file, line(0, "a") + line(1, "b", "P"))
    assert await read(file, tail=1) == "b"
    assert await read(file, tail=2) == "a\nb"


async def test_lines_since_a_moment(file: Path) -> None:
    options = LogOptions.of({"sinceTime": "2026-01-31T12:00:04Z"}, 0)
    assert await read(file, since=options.since) == "line 4\nlong line\n"
    assert LogOptions.of({"sinceSeconds": "5"}, 100).since == 95


async def test_no_more_than_so_many_bytes(file: Path) -> None:
    assert await read(file, limit=9) == "line 0\nli"


async def test_times_are_shown(file: Path) -> None:
    assert await read(file, tail=1, timestamps=True) == "2026-01-31T12:00:05.123456789Z long line\n"


async def test_what_was_set_aside_comes_first(file: Path) -> None:
    file.with_name("log.1").write_text(line(0, "older"))
    assert (await read(file)).startswith("older\nline 0\n")


async def test_no_file_is_an_empty_log(tmp_path: Path) -> None:
    assert await read(tmp_path / "none", follow=True) == ""


async def test_following_ends_with_the_container_and_misses_nothing(file: Path) -> None:
    alive = True
    got: list[bytes] = []

    async def follow() -> None:
        got.extend([piece async for piece in read_log(file, LogOptions(follow=True, tail=0), lambda: alive)])

    task = asyncio.create_task(follow())
    await asyncio.sleep(0.05)
    append(file, line(6, "first"))
    await asyncio.sleep(0.25)
    append(file, line(7, "before the turn"))
    set_aside(file)
    append(file, line(8, "after the turn"))
    alive = False
    await within(task)
    assert b"".join(got) == b"first\nbefore the turn\nafter the turn\n"


async def test_what_is_written_right_before_the_turn_is_not_missed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_some, turned = os.read, False

    def read_and_turn(descriptor: int, count: int) -> bytes:
        nonlocal turned
        data = read_some(descriptor, count)
        if not data and not turned:
            turned = True
            append(file, line(6, "before the turn"))
            set_aside(file)
            append(file, line(7, "after the turn"))
        return data

    monkeypatch.setattr("dray.node.logs.os.read", read_and_turn)
    text = await read(file, follow=True)
    assert text.splitlines()[-3:] == ["long line", "before the turn", "after the turn"]


async def test_what_comes_is_passed_on_at_once(file: Path) -> None:
    pieces = read_log(file, LogOptions(follow=True, tail=0), lambda: True)
    waiting = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0.05)
    append(file, line(6, "new"))
    assert await within(waiting) == b"new\n"
    await pieces.aclose()


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"tailLines": "-1"}, "tailLines: expected a number from 0"),
        ({"tailLines": "x"}, "tailLines"),
        ({"limitBytes": "0"}, "limitBytes: expected a number from 1"),
        ({"follow": "maybe"}, "follow: expected true or false"),
        ({"sinceTime": "yesterday"}, "sinceTime: expected a time"),
    ],
)
def test_bad_options_are_named(query: dict[str, str], text: str) -> None:
    with pytest.raises(BadOption, match=text):
        LogOptions.of(query, 0)


STAMP = b"2026-11-18T17:00:00.123456789Z stdout "


@pytest.mark.parametrize("options", [LogOptions(), LogOptions(since=1.0), LogOptions(tail=200_000)])
async def test_a_full_log_is_read_in_turns_with_others(tmp_path: Path, options: LogOptions) -> None:
    """An agent may run in the process of the API server, where everybody would wait for one reader."""
    for name in ("log", "log.1"):
        (tmp_path / name).write_bytes((STAMP + b"F x\n") * 110_000)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    pieces = [piece async for piece in read_log(tmp_path / "log", options, lambda: False)]
    counting.cancel()
    assert turns > 100
    assert max(map(len, pieces)) < 65_536
    assert b"".join(pieces).count(b"\n") == (options.tail or 220_000)


@pytest.mark.parametrize("older", [0, 3, 400])
@pytest.mark.parametrize("tail", [0, 1, 2, 3, 4, 7, 250, 251, 399, 400, 401, 10_000])
async def test_the_last_lines_are_found_across_files_and_pieces(tmp_path: Path, older: int, tail: int) -> None:
    numbered = [str(number).encode() * 150 for number in range(700)]
    written = [STAMP + b"P " + text + b"\n" + STAMP + b"F .\n" for text in numbered]
    data = b"".join(written)
    middle = data.index(numbered[older]) + len(numbered[older]) + 1  # between two pieces of a line
    (tmp_path / "log.1").write_bytes(data[:middle])
    (tmp_path / "log").write_bytes(data[middle:])
    text = b"".join([piece async for piece in read_log(tmp_path / "log", LogOptions(tail=tail), lambda: False)])
    assert text.split(b"\n")[:-1] == [line + b"." for line in numbered[max(0, 700 - tail) :]]


async def test_a_log_that_grows_faster_than_it_is_read_ends(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes((STAMP + b"F x\n") * 10_000)
    size = 0
    async for piece in read_log(file, LogOptions(), lambda: True):
        size += len(piece)
        with file.open("ab") as stream:
            stream.write((STAMP + b"F y\n") * 10_000)
    assert size == 20_000
