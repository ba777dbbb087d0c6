"""The scribe: the process that writes the file of the SQLite log, and its protocol with the main process.

It is a separate process, because a thread would compete with the event loop for the interpreter lock, which costs
the loop far more time than the writing itself. It uses only the standard library and is run as a file, so it
starts in a few hundredths of a second. It ends when the main process ends, after writing everything it has
received.

The two processes communicate over a socket, one group of commits at a time. Messages are marshalled, because both
sides use the same interpreter. The scribe first sends an `ScribeReply`; then each `Group` it receives gets one
`ScribeReply`. The content of rows, and when rows are deleted, is decided by the main process.

The scribe checks the whole file before it writes, while the main process reads it. Every row has a checksum, and
SQLite checks the pages.
"""

import marshal
import os
import signal
import socket
import sqlite3
import struct
import sys
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

LogRow = tuple[int, str, bytes | None, int, float | None]
"""(number (see `number`), key, value (None: deleted), revision at which the key was created, deadline)."""

Group = tuple[list[LogRow], list[tuple[int, str]], int]
"""(rows to append, revisions and keys of rows to delete, revision up to which the deletions complete a compaction).

A group without rows and deletions is a probe: the answer says whether the file can be written.
"""

ScribeReply = tuple[str | None, str]
"""(error of the group, None if it is on disk; another error, such as a failed checkpoint, or empty)."""

POSITION_BITS = 16
LENGTH = struct.Struct("=I")  # precedes each message

_PAGE_BYTES = 16 << 10
_CHECKPOINT_BYTES = 32 << 20
_FIXED = struct.Struct("<qqd?")  # fixed part of a row: number, created, deadline, whether the key is deleted
_ACKNOWLEDGED = struct.Struct("<qI")  # revision and its checksum


def number(revision: int, position: int = 0) -> int:
    """Return the number of a row: revision and position in the commit, so rows are only appended."""
    return revision << POSITION_BITS | position


def checksum(number: int, key: str, value: bytes | None, created: int, deadline: float | None) -> int:
    """Return the checksum (CRC-32) of a row. `value` None is a deletion, and `deadline` None means that there is
    none.
    """
    fixed = _FIXED.pack(number, created, -1.0 if deadline is None else deadline, value is None)
    return crc32(value or b"", crc32(key.encode(), crc32(fixed)))


def revision_checksum(revision: int) -> int:
    return crc32(b"%d" % revision)


def connect(path: str | Path) -> sqlite3.Connection:
    """Open a database with the settings that the log needs (write-ahead log, full synchronization).

    Creates the file if it is missing. Raises sqlite3.Error if it cannot be used.
    """
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        for setting in (
            f"page_size = {_PAGE_BYTES}",
            "journal_mode = WAL",
            "synchronous = FULL",
            "wal_autocheckpoint = 0",
        ):
            database.execute(f"PRAGMA {setting}")
    except BaseException:
        database.close()
        raise
    return database


def undo_after(database: sqlite3.Connection, path: str | Path, revision: int) -> None:
    """Delete the rows after a revision, which a previous writer wrote but did not acknowledge; reset the witness."""
    database.execute("DELETE FROM log WHERE id >= ?", (number(revision + 1),))
    with closing(Witness(path)) as witness:
        witness.write(revision)


class Witness:
    """The last revision that was on disk, stored in the file PATH.head.

    SQLite treats a damaged or missing write-ahead log like one that ends earlier; the witness detects this. It is
    written after the revision is on disk and is not synchronized itself, so it can lag behind but never be ahead.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(f"{path}.head", os.O_RDWR | os.O_CREAT, 0o600)

    def write(self, revision: int) -> None:
        os.pwrite(self._file, _ACKNOWLEDGED.pack(revision, revision_checksum(revision)), 0)

    def close(self) -> None:
        os.close(self._file)


def acknowledged(path: str | Path) -> int:
    """Return the revision in the witness of a database file; 0 if it is missing or invalid."""
    file = Path(f"{path}.head")
    try:
        revision, check = _ACKNOWLEDGED.unpack(file.read_bytes() if file.is_file() else b"")
    except (OSError, struct.error):
        return 0
    return int(revision) if check == revision_checksum(revision) else 0


def page_damage(database: sqlite3.Connection) -> str:
    """Return a description of damaged pages; empty if SQLite's check finds none."""
    found = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    return "" if found == "ok" else " ".join(str(found).replace("*** in database main ***", "").split())


def damage(database: sqlite3.Connection, witnessed: int) -> str:
    """Return a description of damage in the pages, in a row, or at the end of the database; empty if it is intact.

    `witnessed` is the revision in the witness, which the database must contain.
    """
    try:
        if found := page_damage(database):
            return found
        last = 0
        for number, key, value, created, deadline, check in database.execute("SELECT * FROM log ORDER BY id"):
            last = number >> POSITION_BITS
            if checksum(number, key, value, created, deadline) != check:
                return f"{key!r} at revision {last} does not match its checksum"
        [(compacted, check)] = database.execute("SELECT * FROM compacted").fetchall()
        if revision_checksum(compacted) != check:
            return "the revision of the last compaction does not match its checksum"
        if max(last, compacted) < witnessed:
            return f"revision {witnessed} was written, and the last that is there is {max(last, compacted)}"
    except (sqlite3.Error, TypeError, ValueError, AttributeError, struct.error) as error:  # also columns of wrong types
        return str(error)
    return ""


def message(content: Any) -> bytes:
    """Return a message in the form sent over the socket: its length, then the marshalled content."""
    encoded = marshal.dumps(content)
    return LENGTH.pack(len(encoded)) + encoded


class Writer:
    """The open database file and its witness."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.database = connect(path)
        self.witness = Witness(path)
        self._failure = ""  # error of a checkpoint that has not been reported yet
        self._checkpoint: threading.Thread | None = None
        self._unsaved = 0  # bytes in the write-ahead log since the last checkpoint
        with suppress(FileNotFoundError):
            self._unsaved = Path(f"{path}-wal").stat().st_size  # left by a killed process

    def write(self, rows: Sequence[LogRow], forgotten: Sequence[tuple[int, str]], compacted: int) -> None:
        """Append rows and delete superseded ones in one transaction, which is on disk when this returns.

        `compacted` is the revision to record as compacted if rows are deleted. Raises sqlite3.Error.
        """
        database = self.database
        database.execute("BEGIN IMMEDIATE")
        try:
            checked = [(*row, checksum(*row)) for row in rows]
            database.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", checked)
            if forgotten:
                database.executemany(
                    "DELETE FROM log WHERE id >= ? AND id < ? AND key = ?",
                    [(number(revision), number(revision + 1), key) for revision, key in forgotten],
                )
                update = "UPDATE compacted SET revision = ?1, checksum = ?2 WHERE revision < ?1"
                database.execute(update, (compacted, revision_checksum(compacted)))
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise
        if rows:
            self.witness.write(rows[-1][0] >> POSITION_BITS)
        self._unsaved += sum(len(value or b"") + 100 for _, _, value, _, _ in rows)

    def probe(self) -> None:
        """Write a page without changing content, to check whether writing is possible. Raises sqlite3.Error."""
        version = self.database.execute("PRAGMA user_version").fetchone()[0]
        # SQLite skips writing an equal row, but not the header.
        self.database.execute(f"PRAGMA user_version = {version}")
        self._unsaved += _PAGE_BYTES

    def save(self) -> None:
        """Start a checkpoint in a thread if the write-ahead log is large.

        After the thread has ended, the remainder is checkpointed here, so that SQLite can reuse the write-ahead log.
        """
        if self._checkpoint is not None:
            if not self._checkpoint.is_alive():
                self._checkpoint = None
                self._save_to(self.database)
        elif self._unsaved > _CHECKPOINT_BYTES:
            self._unsaved = 0
            self._checkpoint = threading.Thread(target=self._checkpoint_beside)
            self._checkpoint.start()

    def close(self) -> None:
        if self._checkpoint is not None:
            self._checkpoint.join()
        self.database.close()
        self.witness.close()

    def checkpoint_failure(self) -> str:
        """Return the error of checkpoints since the last call; empty if none. The next call no longer returns it."""
        failure, self._failure = self._failure, ""
        return failure

    def _checkpoint_beside(self) -> None:
        try:
            with closing(connect(self._path)) as database:
                self._save_to(database)
        except sqlite3.Error as error:
            self._failure = str(error)

    def _save_to(self, database: sqlite3.Connection) -> None:
        """Copy the write-ahead log into the database without blocking writers.

        On failure nothing is lost: the write-ahead log grows, and the next checkpoint retries.
        """
        try:
            database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            self._failure = str(error)


def _serve(connection: socket.socket, writer: Writer) -> None:
    """Write group after group until the main process closes the connection."""
    with connection.makefile("rb") as stream:
        while len(head := stream.read(LENGTH.size)) == LENGTH.size:
            (length,) = LENGTH.unpack(head)
            body = stream.read(length)
            if len(body) < length:
                return
            refusal = None
            try:
                rows, forgotten, compacted = marshal.loads(body)
                if rows or forgotten:
                    writer.write(rows, forgotten, compacted)
                else:
                    writer.probe()
            except Exception as error:  # the main process must get an answer in any case
                refusal = str(error)
            answer: ScribeReply = refusal, writer.checkpoint_failure()
            connection.sendall(message(answer))
            writer.save()


def _begin(writer: Writer, path: str, head: int) -> str:
    """Check the file, or, for `head` >= 0, delete the rows after `head`. Returns the problem; empty if none."""
    if head < 0 and (found := damage(writer.database, acknowledged(path))):
        return found
    try:
        if head >= 0:
            undo_after(writer.database, path, head)
        writer.write([], [], 0)  # check that writing is possible
    except (sqlite3.Error, OSError) as error:
        return str(error)
    return ""


def main() -> None:
    """Run the scribe. Arguments: the file, and the revision after which to delete rows, or -1. stdin is the socket."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # ends only when the main process closes the connection
    path, head = sys.argv[1], int(sys.argv[2])
    with closing(Writer(path)) as writer, socket.socket(fileno=0) as connection, suppress(ConnectionError):
        answer: ScribeReply = _begin(writer, path, head) or None, ""
        connection.sendall(message(answer))
        if answer[0] is None:
            _serve(connection, writer)


if __name__ == "__main__":
    main()
