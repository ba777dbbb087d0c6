"""Copies a whole cluster out of etcd or into etcd, at one consistent revision.

Both directions use `dray.store.snapshot.Recovered`, the content of a copy in a SQLite file, which has a checksum
per row and a format version. etcd assigns new revisions to everything that is copied into it. Earlier revisions
are compacted, so clients with an older resourceVersion must list again. `snapshot` handles the files.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import groupby

from dray.store.errors import Unreadable
from dray.store.etcd import EtcdLog
from dray.store.log import KeyVersion, Op
from dray.store.scribe import LogRow, number
from dray.store.snapshot import Recovered

_PAGE = 5_000
_OPS = 96  # operations per commit; etcd accepts 128 by default
_BYTES = 512 * 1024  # size of the values in a commit; etcd accepts 1.5 MiB
_AT_ONCE = 8


async def read(log: EtcdLog) -> Recovered:
    """Return all keys at the newest revision. Servers can continue to write during this call."""
    versions: list[KeyVersion] = []
    page = await log.load(limit=_PAGE)
    versions += page.versions
    head = page.revision
    while page.remaining:
        page = await log.load(head, versions[-1].key, _PAGE)
        versions += page.versions
    ttls = await log.ttls(head)
    now = time.time()
    deadlines = {key: now + ttl for key, ttl in ttls.items()}
    return Recovered(tuple(_rows(versions, deadlines)), head)


def _rows(versions: Sequence[KeyVersion], deadlines: dict[str, float]) -> Iterator[LogRow]:
    ordered = sorted(versions, key=lambda version: (version.revision, version.key))
    for revision, together in groupby(ordered, lambda version: version.revision):
        for at, version in enumerate(together):
            deadline = deadlines.get(version.key)
            yield number(revision, at), version.key, version.value, version.created, deadline


async def write(log: EtcdLog, recovered: Recovered) -> None:
    """Write all keys below an empty prefix, and read them back to verify them.

    Raises Unreadable if the prefix has keys already, or if the result differs. Until this is complete, no server can
    open the log.
    """
    if (await log.load(limit=1)).versions:
        raise Unreadable(f"etcd has keys below {log.prefix} already; choose another prefix")
    await log.set_incomplete(True)
    commits = _commits(recovered.rows, time.time())
    while some := [commit for _, commit in zip(range(_AT_ONCE), commits, strict=False)]:
        await asyncio.gather(*map(log.commit, some))
    written = await read(log)
    _compare(recovered, written)
    await log.compact(written.head)
    await log.set_incomplete(False)


def _commits(rows: Sequence[LogRow], now: float) -> Iterator[list[Op]]:
    ops: list[Op] = []
    size = 0
    for _, key, value, _, deadline in rows:
        ttl = None if deadline is None else max(deadline - now, 1.0)
        length = len(value or b"")
        if ops and (len(ops) == _OPS or size + length > _BYTES):
            yield ops
            ops, size = [], 0
        ops.append(Op(key, value, 0, ttl))
        size += length
    if ops:
        yield ops


def _compare(wanted: Recovered, written: Recovered) -> None:
    """Raise Unreadable if a copy differs from its original, except for keys that may have expired."""
    found = {row[1]: row[2] for row in written.rows}
    for _, key, value, _, deadline in wanted.rows:
        if found.pop(key, value if deadline is not None else None) != value:
            raise Unreadable(f"{key} was not written as it is in the copy")
    if found:
        raise Unreadable(f"somebody else wrote {sorted(found)[0]} meanwhile")
