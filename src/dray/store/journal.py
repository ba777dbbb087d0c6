"""The database file of the SQLite log: an append-only table of versions, read once and then only written.

One row a version, numbered by revision and position in its commit, so that rows are only ever appended and no index is
needed: who asks for a key is answered from memory. Here the file is claimed, checked and read; the scribe writes it.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from dray.store.errors import Unreadable
from dray.store.log import Version
from dray.store.scribe import POSITION_BITS, connect, undo_after

SCHEMA_VERSION = 1
MAX_OPS = 1 << POSITION_BITS
_APPLICATION_ID = 0x64726179  # "dray", in the file's header
_LEAVING_SECONDS = 10.0  # how long the scribe of a process that is gone may take to write what it was given

_CREATE = """
CREATE TABLE log (id INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB, created INTEGER NOT NULL, deadline REAL);
CREATE TABLE compacted (revision INTEGER NOT NULL);
INSERT INTO compacted VALUES (0);
"""


class Journal:
    """Ours alone from here on. `lock` is the descriptor that keeps others out, for as long as any process has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.lock = _lock(path)
        except OSError as error:
            raise Unreadable(f"cannot open {path}: {error.strerror or error}") from error
        with ExitStack() as undo:
            undo.callback(os.close, self.lock)
            try:
                self._database = undo.enter_context(closing(connect(path)))
                _prepare(self._database, path)
            except sqlite3.Error as error:
                raise Unreadable(f"{path} is not a readable database: {error}") from error
            undo.pop_all()

    def read(self) -> Iterator[tuple[Version, float | None]]:
        """Every version with the time at which it expires, oldest first."""
        try:
            rows = self._database.execute("SELECT id, key, value, created, deadline FROM log ORDER BY id")
            for number, key, value, created, deadline in rows:
                yield Version(key, value, number >> POSITION_BITS, created), deadline
        except sqlite3.DatabaseError as error:
            raise Unreadable(f"{self.path} is damaged: {error}") from error

    def compacted(self) -> int:
        return int(self._database.execute("SELECT revision FROM compacted").fetchone()[0])

    def undo_after(self, revision: int) -> None:
        """Delete what a scribe that is gone wrote without being able to say so. Raises sqlite3.Error."""
        undo_after(self._database, revision)

    def close(self) -> None:
        self._database.close()
        os.close(self.lock)


def _lock(path: Path) -> int:
    """Keep other processes out. The lock goes with the processes that have it, however they end."""
    # The file holds secrets: nobody else may read it, nor the files that SQLite puts beside it.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _LEAVING_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            if _is_running(owner) or time.monotonic() > deadline:
                os.close(descriptor)
                raise Unreadable(f"{path} is in use by another process (pid {owner or 'unknown'})") from None
            time.sleep(0.01)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _is_running(owner: str) -> bool:
    try:
        os.kill(int(owner), 0)
    except (ProcessLookupError, ValueError):  # no number: it is about to write it, or to leave
        return False
    except PermissionError:
        pass
    return True


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
