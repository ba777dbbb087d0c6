"""What may stand after --store, and what is said about the rest."""

from pathlib import Path

import pytest

from dray.store import MemoryLog, Op, SqliteLog, StoreError, open_log


async def test_memory() -> None:
    assert type(await open_log("memory")) is MemoryLog


@pytest.mark.parametrize("form", ["sqlite:{}", "sqlite://{}", "{}"])
async def test_a_sqlite_path(tmp_path: Path, form: str) -> None:
    path = tmp_path / "state"
    log = await open_log(form.format(path))
    assert isinstance(log, SqliteLog)
    await log.commit([Op("pods/a", b"")])
    await log.close()
    assert path.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "expected memory, sqlite:PATH or etcd://HOST:PORT"),
        ("memroy", "expected memory"),
        ("sqlite:", "expected memory"),
        ("http://host:80", "expected memory"),
        ("etcd://", "expected memory"),
        ("etcd://host", "expected memory"),
        ("etcd://host:99999", "expected memory"),
        ("etcd://host:1,other", "expected memory"),
        ("etcd://host:1?ac=x", "unknown parameter ac"),
        ("etcd://host:1?user=dray", "user and password-file belong together"),
        ("etcd://host:1?password-file=x", "user and password-file belong together"),
        ("etcd://127.0.0.1:1?user=dray&password-file=/missing", "cannot read the password of dray"),
        ("etcd://host:1?prefix=x", "prefix must end with a slash"),
        ("etcd://host:1?cert=a&key=b", "need ca"),
    ],
)
async def test_anything_else_is_refused_with_what_was_expected(url: str, complaint: str) -> None:
    with pytest.raises(StoreError, match=complaint):
        await open_log(url)
