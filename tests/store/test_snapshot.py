"""Copies of a database, and what can be saved of a damaged one: only what was written, and what is lost is told."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.store import Op, RevisionConflict, SqliteLog, Unreadable, snapshot
from dray.store.journal import create
from dray.store.salvage import salvage
from dray.store.scribe import POSITION_BITS, LogRow, Writer, number
from tests.store.damaging import State, damaged, opened


def state_of(recovered: snapshot.Recovered) -> State:
    return {key: value for _, key, value, _, _ in recovered.rows}


async def test_a_copy_of_a_database_in_use_has_its_latest_state_and_goes_on_from_there(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "store.db")
    first = await log.commit([Op("pods/a", b"1"), Op("pods/b", b"1"), Op("events/e", b"1", ttl=3600)])
    second = await log.commit([Op("pods/a", b"2")])
    head = await log.commit([Op("pods/b", None)])
    snapshot.write(tmp_path / "copy.db", snapshot.read(tmp_path / "store.db"))
    await log.commit([Op("pods/later", b"1")])
    await log.close()
    copy = await SqliteLog.open(tmp_path / "copy.db", clock=lambda: 0.0)
    versions = (await copy.load()).versions
    assert [(v.key, v.value, v.revision, v.created) for v in versions] == [
        ("events/e", b"1", first, first),
        ("pods/a", b"2", second, first),
    ]
    assert await copy.head() == head
    with pytest.raises(RevisionConflict):
        await copy.commit([Op("pods/a", b"3", first)])
    assert await copy.commit([Op("pods/a", b"3", second)]) == head + 1
    await copy.close()
    expired = await SqliteLog.open(tmp_path / "copy.db", clock=lambda: 1e12)
    await expired.expire()
    assert [version.key for version in (await expired.load()).versions] == ["pods/a"]
    await expired.close()


def test_a_copy_does_not_replace_a_file(tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(Unreadable, match=r"copy.db exists"):
        snapshot.write(tmp_path / "copy.db", snapshot.Recovered((), 1))
    assert (tmp_path / "copy.db").read_text() == "mine"


@pytest.mark.parametrize("which", [0, 1])
def test_all_rows_of_a_whole_database_are_found_without_sqlite(written: tuple[Path, Path, State], which: int) -> None:
    found = salvage(written[which])
    assert (found.lost, found.unverified) == ([], 0)
    latest = {key: value for _, (_, key, value, _, _) in sorted(found.rows.items())}
    assert {key: value for key, value in latest.items() if value is not None} == written[2]


@settings(max_examples=40)
@given(
    st.sampled_from([(0, ""), (1, ""), (1, "-wal")]), st.integers(0, 2**32), st.sampled_from(["flip", "cut", "zero"])
)
def test_what_is_saved_was_written_and_what_is_not_is_told(
    written: tuple[Path, Path, State],
    tmp_path_factory: pytest.TempPathFactory,
    file: tuple[int, str],
    seed: int,
    kind: str,
) -> None:
    def change(content: bytearray) -> None:
        if kind == "cut":
            del content[-1 - seed % 50_000 :]
        elif kind == "zero":
            start = seed % len(content)
            content[start : start + 5000] = bytes(len(content[start : start + 5000]))
        else:
            for number in range(150):
                content[(seed + number * 104_729) % len(content)] ^= 1 + number

    path = damaged(written[file[0]], tmp_path_factory.getbasetemp() / "saved", file[1], change)
    history = {row for source in written[:2] for row in salvage(source).rows.values()}
    try:
        recovered = snapshot.recover(path)
    except Unreadable as error:
        assert "nothing of" in str(error)  # noqa: PT017  # either outcome is right
        return
    assert {*recovered.rows} <= history
    if state_of(recovered) != written[2]:
        assert recovered.lost
    assert recovered.head <= max(row[0] for row in history) >> POSITION_BITS


def test_rows_are_saved_when_the_root_of_the_table_is_gone(written: tuple[Path, Path, State], tmp_path: Path) -> None:
    def destroy(content: bytearray) -> None:
        content[:100] = bytes(100)
        content[16384 : 2 * 16384] = bytes(16384)

    path = damaged(written[0], tmp_path / "copy", "", destroy)
    with pytest.raises(Unreadable):
        asyncio.run(opened(path))
    recovered = snapshot.recover(path)
    assert recovered.lost
    assert {**written[2], **state_of(recovered)} == state_of(
        recovered
    )  # nothing is missing; what was deleted may be back
    snapshot.write(tmp_path / "new.db", recovered)
    assert asyncio.run(opened(tmp_path / "new.db")) == state_of(recovered)


def test_the_revision_does_not_go_back_when_the_end_is_lost(written: tuple[Path, Path, State], tmp_path: Path) -> None:
    path = damaged(written[1], tmp_path / "copy", "", lambda content: None)
    Path(f"{path}-wal").write_bytes(Path(f"{path}-wal").read_bytes()[:-40_000])
    recovered = snapshot.recover(path)
    assert recovered.head == snapshot.read(written[0]).head
    assert any("revisions" in line for line in recovered.lost)


@pytest.mark.parametrize("content", [b"", b"hello " * 10_000])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(Unreadable, match="nothing of"):
        snapshot.recover(tmp_path / "file")
    with pytest.raises(Unreadable, match="cannot read"):
        snapshot.recover(tmp_path / "nowhere")


def test_what_was_deleted_and_forgotten_does_not_come_back(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    create(path)
    rows: list[LogRow] = [(number(at), f"pods/{at}", b"x" * 5000, at, None) for at in range(1, 40)]
    for written, forgotten in ((rows, []), ([], [(at, f"pods/{at}") for at in range(1, 39)])):
        with closing(Writer(str(path))) as writer:
            writer.database.execute("PRAGMA secure_delete = OFF")  # some builds of SQLite wipe what they give up
            writer.write(written, forgotten, 39)
    assert b"pods/7" in path.read_bytes()  # in a page that is free now
    assert [row[1] for row in salvage(path).rows.values()] == ["pods/39"]
