"""The database file of the SQLite log: an append-only table of versions, read once and then only written.

One row a version, numbered by revision and position in its commit, so that rows are only ever appended and no index is
needed: who asks for a key is answered from memory. Synchronous; one thread writes at a time. Left out: what a commit
means, and when to write, forget and checkpoint, which the SQLite log decides.
"""

import fcntl
import json
import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from functools import cache
from pathlib import Path

from dray.store.errors import Unreadable
from dray.store.log import Version

logger = logging.getLogger(__name__)

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x64726179  # "dray", in the file's header
_COLUMNS = 5
_POSITION_BITS = 16
MAX_OPS = 1 << _POSITION_BITS
_ROWS_AT_ONCE = (
    128  # one statement for many rows: the interpreter's lock changes hands once a statement, not once a row
)

_CREATE = """
CREATE TABLE log (id INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB, created INTEGER NOT NULL, deadline REAL);
CREATE TABLE compacted (revision INTEGER NOT NULL);
INSERT INTO compacted VALUES (0);
"""
_FORGET = f"""
DELETE FROM log WHERE id IN (
  SELECT log.id FROM json_each(?) AS old CROSS JOIN log
  ON log.id BETWEEN json_extract(old.value, '$[0]') << {_POSITION_BITS}
     AND (json_extract(old.value, '$[0]') << {_POSITION_BITS}) + {MAX_OPS - 1}
  AND log.key = json_extract(old.value, '$[1]'))
"""

Row = tuple[Version, float | None]
"""A version and the time at which it expires."""


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._lock = _lock(path)
        except OSError as error:
            raise Unreadable(f"cannot open {path}: {error.strerror or error}") from error
        try:
            self._database = _connect(path)
            _prepare(self._database, path)
        except sqlite3.Error as error:
            self._lock_release()
            raise Unreadable(f"{path} is not a readable database: {error}") from error
        except Unreadable:
            self._lock_release()
            raise

    def read(self) -> Iterator[Row]:
        """Every row, oldest first."""
        try:
            rows = self._database.execute("SELECT id, key, value, created, deadline FROM log ORDER BY id")
            for number, key, value, created, deadline in rows:
                yield Version(key, value, number >> _POSITION_BITS, created), deadline
        except sqlite3.DatabaseError as error:
            raise Unreadable(f"{self.path} is damaged: {error}") from error

    def compacted(self) -> int:
        return int(self._database.execute("SELECT revision FROM compacted").fetchone()[0])

    def write(self, rows: Sequence[Row], forgotten: Sequence[Version], compacted: int) -> None:
        """Append rows and delete forgotten ones in one transaction that is on the disk when this returns."""
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            values = _values(rows)
            for start in range(0, len(values), _COLUMNS * _ROWS_AT_ONCE):
                some = values[start : start + _COLUMNS * _ROWS_AT_ONCE]
                database.execute(_insert(len(some) // _COLUMNS), some)
            if forgotten:
                database.execute(_FORGET, (json.dumps([(v.revision, v.key) for v in forgotten]),))
                database.execute("UPDATE compacted SET revision = max(revision, ?)", (compacted,))
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def unsaved(self) -> int:
        """Bytes in the write-ahead log: what a process that was killed left, and a file that is kept for reuse."""
        try:
            return Path(f"{self.path}-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def checkpoint(self, *, own_connection: bool) -> None:
        """Move what the write-ahead log holds into the database, without stopping writers. Failing is harmless."""
        try:
            with closing(_connect(self.path)) if own_connection else nullcontext(self._database) as database:
                database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            logger.warning("cannot checkpoint %s: %s", self.path, error)

    def close(self) -> None:
        self._database.close()
        self._lock_release()

    def _lock_release(self) -> None:
        os.close(self._lock)


def _values(rows: Sequence[Row]) -> list[object]:
    """All columns of all rows. Rows of one commit have one revision and stand together."""
    values: list[object] = []
    revision, position = -1, 0
    for version, deadline in rows:
        position = position + 1 if version.revision == revision else 0
        revision = version.revision
        values += (revision << _POSITION_BITS | position, version.key, version.value, version.created, deadline)
    return values


@cache
def _insert(count: int) -> str:
    return "INSERT INTO log VALUES " + ",".join(["(?,?,?,?,?)"] * count)


def _lock(path: Path) -> int:
    """Keep other processes out. The lock goes with the process, however it ends."""
    # The file holds secrets: nobody else may read it, nor the files that SQLite puts beside it.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 20).decode(errors="replace").strip()
        os.close(descriptor)
        raise Unreadable(f"{path} is in use by another process (pid {owner or 'unknown'})") from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    database.execute("PRAGMA page_size = 16384")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    return database


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    """Create the tables in an empty file; refuse a file that we do not understand."""
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if application == 0 and not database.execute("SELECT 1 FROM sqlite_master").fetchone():
        database.executescript(
            f"BEGIN; {_CREATE} PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        )
    elif application != _APPLICATION_ID:
        raise Unreadable(f"{path} is a database of another program")
    elif version > SCHEMA_VERSION:
        raise Unreadable(
            f"{path} was written by a newer dray: it has schema version {version}, this one knows {SCHEMA_VERSION}"
        )
