"""Copies between etcd and SQLite: everything at one revision, nothing half written is ever served."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.store import Cache, EtcdLog, Op, RevisionExpired, SqliteLog, Unreadable, etcd_copy, snapshot
from tests.store.etcd_process import Etcd


@pytest.fixture
async def log(etcd: Etcd) -> AsyncIterator[EtcdLog]:
    opened = await EtcdLog.open([etcd.endpoint], prefix=f"/{uuid.uuid4()}/")
    yield opened
    await opened.close()


async def test_a_copy_of_etcd_is_its_state_at_one_revision(
    log: EtcdLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two keys always change together while the copy is made, page by page."""
    monkeypatch.setattr(etcd_copy, "_PAGE", 2)
    await log.commit([Op(f"pods/{number}", b"x") for number in range(10)])
    await log.commit([Op("events/e", b"1", ttl=3600)])
    going = True

    async def write() -> None:
        number = 0
        while going:
            number += 1
            await log.commit([Op("pods/0", b"%d" % number), Op("pods/9", b"%d" % number)])

    writing = asyncio.create_task(write())
    await asyncio.sleep(0.05)
    found = await etcd_copy.read(log)
    going = False
    await writing
    values = {key: value for _, key, value, _, _ in found.rows}
    assert values["pods/0"] == values["pods/9"] != b"x"
    assert len(values) == 11
    snapshot.write(tmp_path / "copy.db", found)
    copy = await SqliteLog.open(tmp_path / "copy.db")
    assert await copy.head() == found.head
    versions = {version.key: version for version in (await copy.load()).versions}
    assert {key: version.value for key, version in versions.items()} == values
    await copy.commit([Op("pods/1", b"2", versions["pods/1"].revision)])  # compare-and-swap goes on
    await copy.close()
    later = await SqliteLog.open(tmp_path / "copy.db", clock=lambda: 1e12)
    await later.expire()
    assert "events/e" not in {version.key for version in (await later.load()).versions}
    await later.close()


async def test_what_is_copied_into_etcd_is_all_there_and_old_versions_are_too_old(log: EtcdLog) -> None:
    rows = [(number << 16, f"pods/{number}", b"x" * 20_000, 1, None) for number in range(1, 200)]
    event = (300 << 16, "events/e", b"1", 300, 4e9)
    await etcd_copy.write(log, snapshot.Recovered((*rows, event), 300))
    cache = await Cache.open(log)
    assert {v.key: v.value for v in cache.list("").versions} == {row[1]: row[2] for row in [*rows, event]}
    assert (await log.ttls(await log.head())).keys() == {"events/e"}
    with pytest.raises(RevisionExpired):
        cache.watch("", 200)
    await cache.close()


async def test_a_copy_does_not_mix_with_what_is_there(log: EtcdLog) -> None:
    await log.commit([Op("pods/a", b"1")])
    with pytest.raises(Unreadable, match="has keys below"):
        await etcd_copy.write(log, snapshot.Recovered(((1 << 16, "pods/b", b"1", 1, None),), 1))


async def test_a_copy_that_was_interrupted_is_opened_by_nobody(
    etcd: Etcd, log: EtcdLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(ops: object, *, awaited: bool = False) -> int:
        raise OSError("the network is gone")

    monkeypatch.setattr(log, "commit", interrupted)
    with pytest.raises(OSError, match="network"):
        await etcd_copy.write(log, snapshot.Recovered(((1 << 16, "pods/b", b"1", 1, None),), 1))
    with pytest.raises(Unreadable, match="was not completely written"):
        await EtcdLog.open([etcd.endpoint], prefix=log.prefix)
    etcd.control("del", "--prefix", log.prefix)
    await (await EtcdLog.open([etcd.endpoint], prefix=log.prefix)).close()


async def test_a_copy_in_which_something_differs_is_refused(log: EtcdLog, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = log.commit

    async def wrong(ops: list[Op], *, awaited: bool = False) -> int:
        return await commit([Op(op.key, b"other") for op in ops])

    monkeypatch.setattr(log, "commit", wrong)
    with pytest.raises(Unreadable, match="pods/b was not written as it is"):
        await etcd_copy.write(log, snapshot.Recovered(((1 << 16, "pods/b", b"1", 1, None),), 1))
