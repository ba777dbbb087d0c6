"""Copies of a SQLite database with only the latest state, created from a database in use or from the intact part
of a damaged one.

A copy is a normal database that can be opened. Revisions continue after those of the original, so clients of the
original never see an old state as a newer one. The copy has no history. etcd has its own snapshots.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from dray.store.errors import Unreadable
from dray.store.journal import SCHEMA_VERSION, SQLITE_ERRORS, create, remedy
from dray.store.salvage import salvage
from dray.store.scribe import POSITION_BITS, LogRow, Witness, acknowledged, checksum, connect, damage, revision_checksum


class Recovered(Struct, frozen=True):
    """Content of a database: the latest row of every key, the last revision, and one line per lost part.

    `unverified` is the number of rows without a checksum, written by an older version.
    """

    rows: tuple[LogRow, ...]
    head: int
    lost: tuple[str, ...] = ()
    unverified: int = 0


def read(path: Path) -> Recovered:
    """Return the content of an intact database, which may be in use. Raises Unreadable, also if anything is damaged."""
    if not path.exists():
        raise Unreadable(f"{path} does not exist")
    witnessed = acknowledged(path)  # read before the database, which may grow in the meantime
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)) as database:
            database.execute("BEGIN")  # one consistent state, whatever is written in the meantime
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version != SCHEMA_VERSION:
                raise Unreadable(f"{path} has schema version {version}, this dray reads {SCHEMA_VERSION}")
            if problem := damage(database, witnessed):
                raise Unreadable(f"{path} is damaged: {problem}; {remedy(path)}")
            rows = database.execute("SELECT id, key, value, created, deadline FROM log ORDER BY id")
            (compacted,) = database.execute("SELECT revision FROM compacted").fetchone()
            return _latest(rows, compacted)
    except SQLITE_ERRORS as error:
        raise Unreadable(f"{path} is not a readable database: {error}; {remedy(path)}") from error


def recover(path: Path) -> Recovered:
    """Return the readable content of a database that is not in use, damaged or not.

    Raises Unreadable if the file cannot be read or has no readable row.
    """
    try:
        return read(path)
    except Unreadable as error:
        reason = str(error)
    try:
        found = salvage(path)
    except OSError as error:
        raise Unreadable(f"cannot read {path}: {error.strerror or error}") from error
    if not found.rows:
        raise Unreadable(f"nothing of {path} can be saved: {reason}")
    witnessed, last = acknowledged(path), max(found.rows) >> POSITION_BITS
    ends = [f"revisions {last + 1} to {witnessed}"] if witnessed > last else []
    latest = _latest((found.rows[number] for number in sorted(found.rows)), witnessed)
    return Recovered(latest.rows, latest.head, (*found.lost, *ends), found.unverified)


def write(path: Path, recovered: Recovered) -> None:
    """Create a database with this content. Raises Unreadable if the file exists or cannot be written."""
    try:
        if path.exists():
            raise Unreadable(f"{path} exists; choose a name that does not")
        create(path)
        with closing(connect(path)) as database:
            database.execute("BEGIN IMMEDIATE")
            rows = ((*row, checksum(*row)) for row in recovered.rows)
            database.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
            state = recovered.head, revision_checksum(recovered.head)
            database.execute("UPDATE compacted SET revision = ?, checksum = ?", state)
            database.execute("COMMIT")
        with closing(Witness(path)) as witness:
            witness.write(recovered.head)
    except (OSError, sqlite3.Error) as error:
        raise Unreadable(f"cannot write {path}: {error}") from error


def _latest(rows: Iterable[LogRow], head: int) -> Recovered:
    """Return the latest rows of keys that are not deleted, from rows in order; `head` is the minimum last revision."""
    latest: dict[str, LogRow] = {}
    for row in rows:
        head = max(head, row[0] >> POSITION_BITS)
        latest[row[1]] = row
    alive = sorted(row for row in latest.values() if row[2] is not None)
    return Recovered(tuple(alive), head)
