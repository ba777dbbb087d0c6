"""The process that writes the SQLite log's file, and what it says to the process that has the log.

A process of its own, since a thread would take turns with the event loop for the interpreter's lock, which costs the loop
far more time than the writing itself. It needs the standard library alone and is run as a file, so it is there in a few
hundredths of a second. It ends when the other side does: it writes what it was given, and goes.

The two talk over a socket, one group of commits at a time. Messages are marshalled, as both ends are the same
interpreter: an `Answer` at the start, then a `Group` there, an `Answer` back. Left out: what the rows mean, and when to
forget which.

The scribe checks the whole file before it writes into it, while the other side reads it: every row has a checksum, and
SQLite checks the pages around the rows.
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

Row = tuple[int, str, bytes | None, int, float | None]
"""Number (see `number`), key, value (None: deleted), revision in which the key came into existence, deadline."""

Group = tuple[list[Row], list[tuple[int, str]], int]
"""Rows to append; revisions and keys of rows to delete; the revision up to which those are all there were to delete.

A group without rows is a probe: the answer says whether the file can be written.
"""

Answer = tuple[str | None, str]
"""What went wrong with the group, None if it is on the disk; what goes wrong besides, such as a checkpoint, or empty."""

POSITION_BITS = 16
LENGTH = struct.Struct("=I")  # before each message

_PAGE_BYTES = 16 << 10
_CHECKPOINT_BYTES = 32 << 20
_FIXED = struct.Struct("<qqd?")  # of a row: number, created, deadline, whether there is a value
_ACKNOWLEDGED = struct.Struct("<qI")  # a revision and its checksum


def number(revision: int, position: int = 0) -> int:
    """A row's number: by revision and position in the commit, so that rows are only ever appended."""
    return revision << POSITION_BITS | position


def checksum(number: int, key: str, value: bytes | None, created: int, deadline: float | None) -> int:
    """The checksum of a row."""
    fixed = _FIXED.pack(number, created, -1.0 if deadline is None else deadline, value is None)
    return crc32(value or b"", crc32(key.encode(), crc32(fixed)))


def revision_checksum(revision: int) -> int:
    return crc32(b"%d" % revision)


def connect(path: str | Path) -> sqlite3.Connection:
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
    """Delete what a writer wrote without being able to say so."""
    database.execute("DELETE FROM log WHERE id >= ?", (number(revision + 1),))
    with closing(Witness(path)) as witness:
        witness.write(revision)


class Witness:
    """The last revision that was on the disk, in the file PATH.head.

    SQLite takes a write-ahead log that is damaged or missing for one that ends earlier. The witness knows better. It is
    written after the disk has the revision and needs no synchronization: it may lag behind, and never runs ahead.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(f"{path}.head", os.O_RDWR | os.O_CREAT, 0o600)

    def write(self, revision: int) -> None:
        os.pwrite(self._file, _ACKNOWLEDGED.pack(revision, revision_checksum(revision)), 0)

    def close(self) -> None:
        os.close(self._file)


def acknowledged(path: str | Path) -> int:
    """What the witness of that file says, zero if it knows nothing."""
    file = Path(f"{path}.head")
    try:
        revision, check = _ACKNOWLEDGED.unpack(file.read_bytes() if file.is_file() else b"")
    except (OSError, struct.error):
        return 0
    return int(revision) if check == revision_checksum(revision) else 0


def page_damage(database: sqlite3.Connection) -> str:
    """What is wrong with the pages, empty if nothing is."""
    found = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    return "" if found == "ok" else " ".join(str(found).replace("*** in database main ***", "").split())


def damage(database: sqlite3.Connection, witnessed: int) -> str:
    """What is wrong with the file, empty if nothing is: its pages, each of its rows, and its end."""
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
    except (sqlite3.Error, TypeError, ValueError, AttributeError, struct.error) as error:  # columns of other types, too
        return str(error)
    return ""


def message(content: Any) -> bytes:
    encoded = marshal.dumps(content)
    return LENGTH.pack(len(encoded)) + encoded


class Writer:
    def __init__(self, path: str) -> None:
        self._path = path
        self.database = connect(path)
        self.witness = Witness(path)
        self._failure = ""  # with checkpoints; not told yet
        self._checkpoint: threading.Thread | None = None
        self._unsaved = 0  # bytes in the write-ahead log since the last checkpoint
        with suppress(FileNotFoundError):
            self._unsaved = Path(f"{path}-wal").stat().st_size  # a process that was killed left them

    def write(self, rows: Sequence[Row], forgotten: Sequence[tuple[int, str]], compacted: int) -> None:
        """Append rows and delete forgotten ones in one transaction that is on the disk when this returns."""
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
        """Write a page without changing anything, to find out whether that is possible. Raises sqlite3.Error."""
        version = self.database.execute("PRAGMA user_version").fetchone()[0]
        self.database.execute(f"PRAGMA user_version = {version}")  # an equal row would not be written, the header is
        self._unsaved += _PAGE_BYTES

    def save(self) -> None:
        """Checkpoint beside the writing; only the remainder, which lets the write-ahead log start over, is done here."""
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
        """What went wrong with checkpoints since this was asked last."""
        failure, self._failure = self._failure, ""
        return failure

    def _checkpoint_beside(self) -> None:
        try:
            with closing(connect(self._path)) as database:
                self._save_to(database)
        except sqlite3.Error as error:
            self._failure = str(error)

    def _save_to(self, database: sqlite3.Connection) -> None:
        """Move what the write-ahead log holds into the database, without stopping writers.

        Nothing is lost if that fails: the log grows, and the next checkpoint tries again.
        """
        try:
            database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            self._failure = str(error)


def _serve(connection: socket.socket, writer: Writer) -> None:
    """Write group after group until the other side is gone."""
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
            except Exception as error:  # whatever it is, the other side waits for an answer
                refusal = str(error)
            answer: Answer = refusal, writer.checkpoint_failure()
            connection.sendall(message(answer))
            writer.save()


def _begin(writer: Writer, path: str, head: int) -> str:
    """Check the file, or undo what a predecessor could not acknowledge; what is wrong, empty if nothing is."""
    if head < 0 and (found := damage(writer.database, acknowledged(path))):
        return found
    try:
        if head >= 0:
            undo_after(writer.database, path, head)
        writer.write([], [], 0)  # whether that is possible at all
    except (sqlite3.Error, OSError) as error:
        return str(error)
    return ""


def main() -> None:
    """Arguments: the file, and the revision after which to delete everything, -1 for nothing. The socket is stdin."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # who ends us all: the other side decides when there is nothing left
    path, head = sys.argv[1], int(sys.argv[2])
    with closing(Writer(path)) as writer, socket.socket(fileno=0) as connection, suppress(ConnectionError):
        answer: Answer = _begin(writer, path, head) or None, ""
        connection.sendall(message(answer))
        if answer[0] is None:
            _serve(connection, writer)


if __name__ == "__main__":
    main()
