"""The process that writes the SQLite log's file, and what it says to the process that has the log.

A process of its own, since a thread would take turns with the event loop for the interpreter's lock, which costs the loop
far more time than the writing itself. It needs the standard library alone and is run as a file, so it is there in a few
hundredths of a second. It ends when the other side does: it writes what it was given, and goes.

The two talk over a socket, one group of commits at a time. Messages are marshalled, as both ends are the same
interpreter: a `Group` there, an `Answer` back. Left out: what the rows mean, and when to forget which.
"""

import marshal
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

Row = tuple[int, str, bytes | None, int, float | None]
"""Number (see `number`), key, value (None: deleted), revision in which the key came into existence, deadline."""

Group = tuple[list[Row], list[tuple[int, str]], int]
"""Rows to append; revisions and keys of rows to delete; the revision up to which those are all there were to delete."""

Answer = tuple[str | None, str]
"""What went wrong with the group, None if it is on the disk; what goes wrong besides, such as a checkpoint, or empty."""

POSITION_BITS = 16
LENGTH = struct.Struct("=I")  # before each message

_CHECKPOINT_BYTES = 32 << 20


def number(revision: int, position: int = 0) -> int:
    """A row's number: by revision and position in the commit, so that rows are only ever appended."""
    return revision << POSITION_BITS | position


def connect(path: str | Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("page_size = 16384", "journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0"):
            database.execute(f"PRAGMA {setting}")
    except BaseException:
        database.close()
        raise
    return database


def undo_after(database: sqlite3.Connection, revision: int) -> None:
    """Delete what a writer wrote without being able to say so."""
    database.execute("DELETE FROM log WHERE id >= ?", (number(revision + 1),))


def message(content: Any) -> bytes:
    encoded = marshal.dumps(content)
    return LENGTH.pack(len(encoded)) + encoded


class Writer:
    def __init__(self, path: str) -> None:
        self._path = path
        self.database = connect(path)
        self._trouble = ""  # with checkpoints; not told yet
        self._checkpoint: threading.Thread | None = None
        self._unsaved = 0  # bytes in the write-ahead log since the last checkpoint
        with suppress(FileNotFoundError):
            self._unsaved = Path(f"{path}-wal").stat().st_size  # a process that was killed left them

    def write(self, rows: Sequence[Row], forgotten: Sequence[tuple[int, str]], compacted: int) -> None:
        """Append rows and delete forgotten ones in one transaction that is on the disk when this returns."""
        database = self.database
        database.execute("BEGIN IMMEDIATE")
        try:
            database.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
            if forgotten:
                database.executemany(
                    "DELETE FROM log WHERE id >= ? AND id < ? AND key = ?",
                    [(number(revision), number(revision + 1), key) for revision, key in forgotten],
                )
                database.execute("UPDATE compacted SET revision = max(revision, ?)", (compacted,))
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise
        self._unsaved += sum(len(value or b"") + 100 for _, _, value, _, _ in rows)

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

    def trouble(self) -> str:
        """What went wrong with checkpoints since this was asked last."""
        trouble, self._trouble = self._trouble, ""
        return trouble

    def _checkpoint_beside(self) -> None:
        try:
            with closing(connect(self._path)) as database:
                self._save_to(database)
        except sqlite3.Error as error:
            self._trouble = str(error)

    def _save_to(self, database: sqlite3.Connection) -> None:
        """Move what the write-ahead log holds into the database, without stopping writers.

        Nothing is lost if that fails: the log grows, and the next checkpoint tries again.
        """
        try:
            database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            self._trouble = str(error)


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
                writer.write(*marshal.loads(body))
            except Exception as error:  # whatever it is, the other side waits for an answer
                refusal = str(error)
            answer: Answer = refusal, writer.trouble()
            connection.sendall(message(answer))
            writer.save()


def main() -> None:
    """Arguments: the file, and the revision after which to delete everything, -1 for nothing. The socket is stdin."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # who ends us all: the other side decides when there is nothing left
    path, head = sys.argv[1], int(sys.argv[2])
    with closing(Writer(path)) as writer, socket.socket(fileno=0) as connection, suppress(ConnectionError):
        if head >= 0:
            undo_after(writer.database, head)
        _serve(connection, writer)


if __name__ == "__main__":
    main()
