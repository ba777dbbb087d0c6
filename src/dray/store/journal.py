"""Database file of the SQLite log: an append-only table of versions that is read once at startup and then only
written.

Each version is one row, numbered by revision and position in its commit, so rows are only appended. No index is
needed, because all reads are served from memory. This module locks, creates, upgrades and reads the file; the
scribe checks and writes it.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from dray.store.errors import Unreadable
from dray.store.log import KeyVersion
from dray.store.scribe import POSITION_BITS, checksum, connect, page_damage, revision_checksum, undo_after

SCHEMA_VERSION = 2
MAX_OPS = 1 << POSITION_BITS
_APPLICATION_ID = 0x64726179  # "dray"; stored in the file header
_LEAVING_SECONDS = 10.0  # time for the scribe of a dead process to finish its last write

_MANY_ROWS = 100
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # UnicodeDecodeError: the message quotes a damaged file

_CREATE = f"""
BEGIN;
CREATE TABLE log (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB, created INTEGER NOT NULL, deadline REAL,
    checksum INTEGER NOT NULL
);
CREATE TABLE compacted (revision INTEGER NOT NULL, checksum INTEGER NOT NULL);
INSERT INTO compacted VALUES (0, {revision_checksum(0)});
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_ADD_CHECKSUMS = """
BEGIN IMMEDIATE;
ALTER TABLE log ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE log SET checksum = checksum(id, key, value, created, deadline);
ALTER TABLE compacted ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE compacted SET checksum = revision_checksum(revision);
PRAGMA user_version = 2;
COMMIT;
"""


def remedy(path: Path) -> str:
    """Return advice on an unusable file, as the end of a sentence."""
    return f"`dray snapshot restore {path} --dir NEW` saves what is whole into a new directory"


class Journal:
    """The locked database file. Other processes are excluded while any process has the descriptor `lock` open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.lock = _lock(path)
        except OSError as error:
            raise Unreadable(f"cannot open {path}: {error.strerror or error}") from error
        with ExitStack() as undo:
            undo.callback(os.close, self.lock)
            try:
                _require_witness_file(path)
                _require_content(path)
                self._database = undo.enter_context(closing(connect(path)))
                _bring_up_to_date(self._database, path)
            except OSError as error:
                raise Unreadable(f"cannot open {path}: {error.strerror or error}") from error
            except SQLITE_ERRORS as error:
                raise Unreadable(f"{path} is not a readable database: {error}; {remedy(path)}") from error
            undo.pop_all()

    def read(self) -> Iterator[list[tuple[KeyVersion, float | None]]]:
        """Yield lists of versions, oldest first, each version with its deadline or None. Raises Unreadable."""
        try:
            rows = self._database.execute("SELECT id, key, value, created, deadline FROM log ORDER BY id")
            while many := rows.fetchmany(_MANY_ROWS):
                yield [
                    (KeyVersion(key, value, number >> POSITION_BITS, created), deadline)
                    for number, key, value, created, deadline in many
                ]
        except SQLITE_ERRORS as error:
            raise Unreadable(f"{self.path} is damaged: {error}; {remedy(self.path)}") from error

    def compacted(self) -> int:
        """Return the revision of the last compaction, 0 if there was none."""
        return int(self._database.execute("SELECT revision FROM compacted").fetchone()[0])

    def undo_after(self, revision: int) -> None:
        """Delete rows after a revision that a dead scribe did not acknowledge. Raises sqlite3.Error or OSError."""
        undo_after(self._database, self.path, revision)

    def close(self) -> None:
        self._database.close()
        os.close(self.lock)


def _lock(path: Path) -> int:
    """Lock the database against other processes. Returns the descriptor of the lock file; raises Unreadable if it
    stays locked.

    The lock ends with the last process that has the descriptor open, however that process ends.
    """
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
    except (ProcessLookupError, ValueError):  # not a number: the owner is starting or exiting
        return False
    except PermissionError:
        pass
    return True


def _require_witness_file(path: Path) -> None:
    """Raise Unreadable if the witness exists but is not a regular file, because the scribe could not write it."""
    witness = Path(f"{path}.head")
    if witness.exists() and not witness.is_file():
        raise Unreadable(f"{witness} is no regular file; remove it, and it is made again")


def _require_content(path: Path) -> None:
    """Create a missing database. Raises Unreadable if remains show that one is lost, or if the file is empty.

    Raises OSError if the file cannot be opened or created.
    """
    try:
        os.close(os.open(path, os.O_RDWR))
    except FileNotFoundError:
        left = [file for ending in (".head", "-wal") if (file := Path(f"{path}{ending}")).exists()]
        if left:
            raise Unreadable(
                f"{path} is missing, although a database was there, as {left[0]} says; put it back, or remove "
                f"{' and '.join(map(str, left))} to start an empty cluster"
            ) from None
        create(path)
        return
    if path.stat().st_size == 0:
        raise Unreadable(
            f"{path} is empty; put the database back that was there, or remove it to start an empty cluster"
        )


def create(path: Path) -> None:
    """Create an empty database, either completely or not at all."""
    new = Path(f"{path}.new")
    new.unlink(missing_ok=True)
    # The file contains secrets, so only the owner may read it and the files that SQLite creates beside it.
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(connect(new)) as database:
        database.executescript(_CREATE)
    new.rename(path)


def _bring_up_to_date(database: sqlite3.Connection, path: Path) -> None:
    """Upgrade a database of an older version. Raises Unreadable for a file of another program or a newer version."""
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if application != _APPLICATION_ID:
        raise Unreadable(f"{path} is a database of another program, or its header is damaged")
    if version > SCHEMA_VERSION:
        raise Unreadable(
            f"{path} was written by a newer dray: it has schema version {version}, this one knows {SCHEMA_VERSION}"
        )
    if version < SCHEMA_VERSION:
        _upgrade(database)


def _upgrade(database: sqlite3.Connection) -> None:
    """Upgrade from version 1, which had no checksums: compute them from the current content."""
    if found := page_damage(database):
        raise sqlite3.DatabaseError(found)
    database.create_function("checksum", 5, checksum, deterministic=True)
    database.create_function("revision_checksum", 1, revision_checksum, deterministic=True)
    database.executescript(_ADD_CHECKSUMS)
