"""What only the SQLite log has to do: survive, refuse foreign files, write together."""

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dray.store import Cache, Compacted, Op, RevisionConflict, SqliteLog, Unavailable, Unreadable, scribe
from dray.store.journal import SCHEMA_VERSION
from tests.waiting import eventually, within

WRITER = Path(__file__).with_name("sqlite_writer.py")


def kill_under_load(path: Path, start: int, seconds: float) -> dict[int, int]:
    """Let the writer write for a while, kill it, and return the last number acknowledged to each writer."""
    process = subprocess.Popen([sys.executable, WRITER, path, str(start)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    output = first + process.stdout.read()
    process.stdout.close()
    process.wait()
    lines = output.decode().split("\n")[:-1]  # without one that was cut off
    return {int(writer): int(number) for writer, number in (line.split() for line in lines)}


async def state(path: Path) -> dict[str, bytes | None]:
    log = await SqliteLog.open(path)
    page = await log.load()
    await log.close()
    return {version.key: version.value for version in page.versions}


async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    start = 0
    for _ in range(20):
        acknowledged = await asyncio.to_thread(kill_under_load, path, start, random.uniform(0.0, 0.15))
        assert acknowledged
        found = await state(path)
        for writer, number in acknowledged.items():
            hot = found[f"hot/{writer}"]
            assert hot is not None
            last = int(hot[: len(hot) // 200])
            assert last in (number, number + 1)  # the next may have been written without being acknowledged
            own = {key for key in found if key.startswith(f"a/{writer}/") and int(key[-6:]) >= start}
            assert own == {f"a/{writer}/{n:06}" for n in range(max(last - 9, start), last + 1)}
        start = max(int(key[-6:]) for key in found if key.startswith("a/")) + 100


async def test_what_killed_processes_left_in_the_write_ahead_log_is_checkpointed(tmp_path: Path) -> None:
    before, after = tmp_path / "before.db", tmp_path / "after.db"
    log = await SqliteLog.open(before)
    values = [bytes(1 << 20) for _ in range(40)]
    for life in range(2):  # neither writes enough for a checkpoint
        for number, value in enumerate(values[life * 20 :][:20]):
            await log.commit([Op(f"{life}/{number}", value)])
        for ending in ("", "-wal"):
            shutil.copyfile(f"{before}{ending}", f"{after}{ending}")  # what is there when the process is killed
        await log.close()
        before, after = after, before
        log = await SqliteLog.open(before)
    await log.commit([Op("last", b"")])
    await eventually(lambda: before.stat().st_size > sum(map(len, values)))
    await log.close()


async def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    first = await log.commit([Op("pods/a", b"1"), Op("pods/b", b"1")])
    second = await log.commit([Op("pods/a", b"2")])
    third = await log.commit([Op("pods/b", None)])
    await log.close()
    log = await SqliteLog.open(path)
    assert await log.head() == third
    [version] = (await log.load()).versions
    assert (version.key, version.value, version.revision, version.created) == ("pods/a", b"2", second, first)
    assert [v.key for v in (await log.load(first)).versions] == ["pods/a", "pods/b"]
    with pytest.raises(RevisionConflict):
        await log.commit([Op("pods/a", b"3", first)])
    assert await log.commit([Op("pods/a", b"3", second)]) == third + 1
    await log.close()


async def test_revisions_go_on_after_everything_was_deleted_and_compacted(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    await log.commit([Op("pods/a", b"1")])
    last = await log.commit([Op("pods/a", None)])
    await log.compact(last)
    await log.close()
    log = await SqliteLog.open(path)
    assert await log.head() == last
    with pytest.raises(Compacted):
        await log.load(last - 1)
    assert await log.commit([Op("pods/a", b"2", 0)]) == last + 1
    await log.close()


async def test_compaction_shrinks_the_table(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    for n in range(2000):
        ops = [Op(f"pods/{m}", str(n).encode()) for m in range(3)]
        revision = await log.commit(ops) if n % 200 == 0 else (await log.commit(ops[:1]))
    await log.compact(revision)
    await log.commit([Op("pods/last", b"")])
    with sqlite3.connect(path) as database:  # forgetting goes on after the commit
        await eventually(lambda: database.execute("SELECT count(*) FROM log").fetchone() == (4,))
    database.close()
    await log.close()
    assert sorted(await state(path)) == ["pods/0", "pods/1", "pods/2", "pods/last"]


async def test_the_write_ahead_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "store.db")
    for n in range(160):
        await asyncio.gather(*[log.commit([Op(f"pods/{m}", bytes(100_000))]) for m in range(10)])
        await log.compact(n)
    assert os.stat(tmp_path / "store.db-wal").st_size < 100 << 20  # of 160 MB written
    await log.close()


async def test_large_commits_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    ops = [Op(f"pods/{n:04}", str(n).encode()) for n in range(1000)]
    await asyncio.gather(log.commit(ops[:300]), log.commit(ops[300:]))
    await log.close()
    assert await state(path) == {op.key: op.value for op in ops}


async def test_deadlines_survive_reopening(tmp_path: Path) -> None:
    path, now = tmp_path / "store.db", [1000.0]
    log = await SqliteLog.open(path, clock=lambda: now[0])
    await log.commit([Op("events/a", b"", ttl=60), Op("events/b", b"", ttl=600)])
    await log.close()
    now[0] += 61
    log = await SqliteLog.open(path, clock=lambda: now[0])
    await log.expire()
    assert [version.key for version in (await log.load()).versions] == ["events/b"]
    await log.close()


async def test_a_check_sees_commits_that_are_not_on_the_disk_yet(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "store.db")
    results = await asyncio.gather(*[log.commit([Op("pods/a", b"", 0)]) for _ in range(20)], return_exceptions=True)
    assert sum(isinstance(result, int) for result in results) == 1
    assert sum(isinstance(result, RevisionConflict) for result in results) == 19
    await log.close()


async def test_concurrent_commits_share_transactions(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "store.db")
    batches = []
    log.attach(0, batches.append)
    await asyncio.gather(*[log.commit([Op(f"pods/{n}", b"")]) for n in range(500)])
    assert sum(len(batch.versions) for batch in batches) == 500
    assert len(batches) < 100
    await log.close()


async def test_of_commits_that_come_together_those_that_clients_wait_for_are_told_first(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "store.db")
    told: list[str] = []

    async def write(key: str, awaited: bool) -> None:
        await log.commit([Op(key, b"1")], awaited=awaited)
        told.append(key)

    await asyncio.gather(*[write(f"pods/{number}", awaited=number % 3 == 2) for number in range(6)])
    assert told == ["pods/2", "pods/5", "pods/0", "pods/1", "pods/3", "pods/4"]
    await log.close()


async def test_what_gathers_for_the_next_transaction_is_written_before_closing(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "db")
    await asyncio.gather(*[log.commit([Op(f"pods/{n}", b"1")]) for n in range(10)])
    last = asyncio.create_task(log.commit([Op("pods/last", b"1")]))
    await asyncio.sleep(0)
    assert not last.done()
    await log.close()
    revision = await last
    log = await SqliteLog.open(tmp_path / "db")
    assert {version.key: version.revision for version in (await log.load()).versions}["pods/last"] == revision
    await log.close()


async def test_who_writes_the_same_key_without_a_pause_does_not_keep_others_out(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "store.db")
    cache = await Cache.open(log)

    async def write(value: bytes | None) -> None:
        current = cache.get("hot/a")
        await cache.commit([Op("hot/a", value, current.revision if current is not None else 0)])

    async def hammer() -> None:
        while True:
            with suppress(RevisionConflict):
                await write(b"x")

    hammering = asyncio.create_task(hammer())
    for _ in range(20):
        await eventually(lambda: cache.get("hot/a") is not None)
        attempts = 0
        while True:
            attempts += 1
            try:
                await write(None)
                break
            except RevisionConflict:
                assert attempts < 8
    hammering.cancel()
    await asyncio.gather(hammering, return_exceptions=True)
    await cache.close()
    await log.close()


async def test_a_failed_write_is_reported_and_the_log_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    kept = await log.commit([Op("pods/a", b"1")])
    with sqlite3.connect(path) as other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON log WHEN new.key LIKE 'bad%' BEGIN SELECT RAISE(FAIL, 'disk full'); END"
        )
    other.close()
    results = await asyncio.gather(
        *[log.commit([Op(f"bad/{n}", b""), Op("pods/a", str(n).encode())]) for n in range(5)], return_exceptions=True
    )
    assert all(isinstance(result, Unavailable) for result in results)
    assert "disk full" in caplog.text
    assert [(v.key, v.value) for v in (await log.load()).versions] == [("pods/a", b"1")]
    assert await log.commit([Op("pods/a", b"2", kept)]) == kept + 1
    await log.close()
    assert await state(path) == {"pods/a": b"2"}


def scribes(path: Path) -> list[int]:
    """The processes that write the file."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(path).encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def write_unsaid(path: Path, revision: int, key: str) -> None:
    """Write what a scribe writes that is killed before it can say so."""
    with closing(scribe.Writer(str(path))) as writer:
        writer.write([(scribe.number(revision), key, b"2", revision, None)], [], 0)


async def test_what_a_scribe_wrote_and_could_not_say_is_undone_by_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    head = await log.commit([Op("pods/a", b"1")])
    [victim] = scribes(path)
    os.kill(victim, signal.SIGSTOP)
    lost = asyncio.create_task(log.commit([Op("pods/lost", b"2")]))
    await asyncio.sleep(0)
    write_unsaid(path, head + 1, "pods/lost")
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(Unavailable):
        await within(lost)
    assert await within(log.commit([Op("pods/b", b"3", 0)])) == head + 1
    await log.close()
    assert await state(path) == {"pods/a": b"1", "pods/b": b"3"}


async def test_a_successor_that_cannot_undo_writes_nothing_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    head = await log.commit([Op("pods/a", b"1")])
    with sqlite3.connect(path) as other:
        other.execute("CREATE TRIGGER stuck BEFORE DELETE ON log BEGIN SELECT RAISE(FAIL, 'stuck'); END")
    [victim] = scribes(path)
    os.kill(victim, signal.SIGSTOP)
    lost = asyncio.create_task(log.commit([Op("pods/lost", b"2")]))
    await asyncio.sleep(0)
    write_unsaid(path, head + 1, "pods/lost")
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(Unavailable):
        await within(lost)
    await eventually(lambda: "the process that writes it cannot be started: stuck" in caplog.text)
    other.execute("DROP TRIGGER stuck")
    other.commit()
    other.close()

    async def written() -> bool:
        with suppress(Unavailable):
            return await log.commit([Op("pods/b", b"3", 0)]) == head + 1
        return False

    await eventually(written)
    await log.close()
    assert await state(path) == {"pods/a": b"1", "pods/b": b"3"}


async def test_the_log_goes_on_when_the_process_that_writes_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    outcomes: list[str] = []
    stop = asyncio.Event()

    async def write(writer: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                await log.commit([Op(f"pods/{writer}", str(number).encode()), Op(f"pods/{writer}/{number}", b"")])
                outcomes.append("done")
            except Unavailable:
                outcomes.append("failed")

    writers = [asyncio.create_task(write(writer)) for writer in range(4)]
    for _ in range(3):
        await eventually(lambda: "done" in outcomes)
        [victim] = scribes(path)
        os.kill(victim, signal.SIGKILL)
        await eventually(lambda: "failed" in outcomes)
        outcomes.clear()
    await eventually(lambda: "done" in outcomes)
    stop.set()
    await asyncio.gather(*writers)
    published = {version.key: version.value for version in (await log.load()).versions}
    await log.close()
    assert await state(path) == published
    assert scribes(path) == []


async def test_closing_tells_that_the_last_commit_failed_and_does_not_let_it_come_back(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    head = await log.commit([Op("pods/a", b"1")])
    [victim] = scribes(path)
    os.kill(victim, signal.SIGSTOP)
    commit = asyncio.create_task(log.commit([Op("pods/b", b"2")]))
    await asyncio.sleep(0)
    closing = asyncio.create_task(log.close())
    await asyncio.sleep(0)
    write_unsaid(path, head + 1, "pods/b")
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(Unavailable, match="the last commits are not in the database: the process that writes it ended"):
        await within(closing)
    with pytest.raises(Unavailable):
        await within(commit)
    assert scribes(path) == []
    assert await state(path) == {"pods/a": b"1"}


async def test_closing_waits_for_a_successor_that_writes_what_was_begun(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    [victim] = scribes(path)
    os.kill(victim, signal.SIGKILL)
    await eventually(lambda: "the process that writes it ended" in caplog.text)
    commit = asyncio.create_task(log.commit([Op("pods/b", b"2")]))
    await asyncio.sleep(0)
    await within(log.close())
    await within(commit)
    assert await state(path) == {"pods/b": b"2"}
    assert scribes(path) == []


async def test_a_checkpoint_that_fails_is_told_and_writing_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    log = await SqliteLog.open(path)
    await log.commit([Op("pods/0", b"")])
    path.rename(tmp_path / "aside")
    path.mkdir()  # nobody can open the file any more; who has it open writes on
    written = 0

    async def told() -> bool:
        nonlocal written
        written += 1
        await log.commit([Op(f"pods/{written}", bytes(1 << 20))])
        return "write-ahead log" in caplog.text

    await eventually(told)
    assert f"the write-ahead log of {path} grows: checkpoint: unable to open database file" in caplog.text
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    path.rmdir()
    (tmp_path / "aside").rename(path)
    await log.close()
    assert len(await state(path)) == written + 1


async def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "store.db")
    with pytest.raises(Unreadable, match=f"in use by another process .pid {os.getpid()}"):
        await SqliteLog.open(tmp_path / "store.db")
    await log.close()
    await (await SqliteLog.open(tmp_path / "store.db")).close()


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await (await SqliteLog.open(path)).close()
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    database.close()
    with pytest.raises(Unreadable, match="newer dray: it has schema version 3, this one knows 2"):
        await SqliteLog.open(path)


async def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "store.db")
    await log.commit([Op("secrets/a", b"")])
    for suffix in ("", "-wal", "-shm", ".lock", ".head"):
        assert os.stat(f"{tmp_path / 'store.db'}{suffix}").st_mode & 0o077 == 0
    await log.close()
