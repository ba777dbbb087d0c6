"""A file that is not what was written: every object is served exactly, or the file is refused with what to do."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.store import Op, SqliteLog, Unreadable
from tests.store.damaging import State, damaged, opened

REMEDY = "dray snapshot restore"


def exact_or_refused(path: Path, state: State) -> bool:
    """Whether it was refused."""
    reason = ""
    try:
        assert asyncio.run(opened(path)) == state
    except Unreadable as error:
        reason = str(error)
    if reason:
        assert str(path) in reason
        assert any(words in reason for words in (REMEDY, "newer dray", "another program"))
    return bool(reason)


FILES = st.sampled_from([(0, ""), (1, ""), (1, "-wal"), (1, ".head")])
WHERE = st.floats(0, 1, exclude_max=True)


@settings(max_examples=60)
@given(FILES, WHERE, st.sampled_from([1, 150]), st.booleans(), st.integers(1, 255))
def test_flipped_bytes_are_harmless_or_told(
    written: tuple[Path, Path, State],
    tmp_path_factory: pytest.TempPathFactory,
    file: tuple[int, str],
    where: float,
    count: int,
    scattered: bool,
    bits: int,
) -> None:
    def flip(content: bytearray) -> None:
        start = int(where * len(content))
        for number in range(count):
            place = start + number * (7919 if scattered else 1)
            content[place % len(content)] ^= bits

    source, ending = written[file[0]], file[1]
    exact_or_refused(damaged(source, tmp_path_factory.getbasetemp() / "flipped", ending, flip), written[2])


@settings(max_examples=30)
@given(FILES, WHERE | st.integers(1, 1000))
def test_a_file_that_was_cut_is_harmless_or_told(
    written: tuple[Path, Path, State],
    tmp_path_factory: pytest.TempPathFactory,
    file: tuple[int, str],
    where: float,
) -> None:
    def cut(content: bytearray) -> None:
        del content[-where if isinstance(where, int) else int(where * len(content)) or 1 :]

    source, ending = written[file[0]], file[1]
    exact_or_refused(damaged(source, tmp_path_factory.getbasetemp() / "cut", ending, cut), written[2])


def test_a_value_whose_byte_was_changed_is_told_with_its_key(written: tuple[Path, Path, State], tmp_path: Path) -> None:
    def change(content: bytearray) -> None:
        place = content.index(b"0119" * 20)
        content[place] ^= 1

    with pytest.raises(Unreadable, match=rf"state.db is damaged: 'pods/49' at revision 120 .*checksum; .{REMEDY} "):
        asyncio.run(opened(damaged(written[0], tmp_path / "copy", "", change)))


@pytest.mark.parametrize("ending", ["", "-wal"])
def test_the_last_thousand_bytes_are_missed(written: tuple[Path, Path, State], tmp_path: Path, ending: str) -> None:
    def cut(content: bytearray) -> None:
        del content[-1000:]

    assert exact_or_refused(damaged(written[1 if ending else 0], tmp_path / "copy", ending, cut), written[2])


def test_a_write_ahead_log_that_is_gone_is_missed(written: tuple[Path, Path, State], tmp_path: Path) -> None:
    path = damaged(written[1], tmp_path / "copy", "", lambda content: None)
    assert asyncio.run(opened(path)) == written[2]
    path = damaged(written[1], tmp_path / "copy", "", lambda content: None)
    Path(f"{path}-wal").unlink()
    with pytest.raises(Unreadable, match=r"damaged|not a readable database"):
        asyncio.run(opened(path))


async def test_an_empty_file_does_not_start_an_empty_cluster(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    with pytest.raises(Unreadable, match=rf"{path} is empty; put the database back .* or remove it"):
        await SqliteLog.open(path)
    assert path.stat().st_size == 0
    path.unlink()
    await (await SqliteLog.open(path)).close()


async def test_a_missing_file_does_not_start_an_empty_cluster(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    await log.commit([Op("pods/a", b"1")])
    await log.close()
    path.rename(tmp_path / "aside")
    with pytest.raises(Unreadable, match=rf"{path} is missing, .* or remove {path}.head to start an empty cluster"):
        await SqliteLog.open(path)
    (tmp_path / "aside").rename(path)
    assert await opened(path) == {"pods/a": b"1"}


async def test_an_older_copy_is_told_from_the_database(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    await log.commit([Op("pods/a", b"1")])
    await log.close()
    older = path.read_bytes()
    log = await SqliteLog.open(path)
    await log.commit([Op("pods/b", b"1")])
    await log.close()
    path.write_bytes(older)
    with pytest.raises(Unreadable, match="revision 2 was written, and the last that is there is 1"):
        await SqliteLog.open(path)


async def test_a_start_that_was_interrupted_while_it_made_the_file_is_finished(tmp_path: Path) -> None:
    (tmp_path / "store.db.new").write_bytes(b"half")
    assert await opened(tmp_path / "store.db") == {}


async def test_foreign_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE theirs (a)")
    database.close()
    with pytest.raises(Unreadable, match="another program"):
        await SqliteLog.open(foreign)
    text = tmp_path / "text.db"
    text.write_text("hello " * 1000)
    with pytest.raises(Unreadable, match="not a readable database"):
        await SqliteLog.open(text)
    assert text.read_text() == "hello " * 1000
    with pytest.raises(Unreadable, match="cannot open"):
        await SqliteLog.open(tmp_path / "no" / "such" / "directory.db")
    with pytest.raises(Unreadable, match=r"cannot open .*: Is a directory"):
        await SqliteLog.open(tmp_path)


async def test_a_refused_file_is_free_for_others(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    await log.commit([Op("pods/a", b"unmistakable")])
    await log.close()
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"unmistakable", b"unmistakeable"[:12]))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(Unreadable, match="pods/a"):
            await SqliteLog.open(path)
    assert len(os.listdir("/proc/self/fd")) == before
    path.write_bytes(whole)
    assert await opened(path) == {"pods/a": b"unmistakable"}


def test_a_row_that_its_page_does_not_count_any_more_is_missed(
    written: tuple[Path, Path, State], tmp_path: Path
) -> None:
    def uncount(content: bytearray) -> None:
        leaves = [at for at in range(16384, len(content), 16384) if content[at] == 13]
        counts = [at + 4 for at in leaves if content[at + 4] > 3]  # the lower bytes of the numbers of rows
        content[counts[len(counts) // 2]] -= 1

    assert exact_or_refused(damaged(written[0], tmp_path / "copy", "", uncount), written[2])
