"""Recovers intact rows from a damaged database, page by page and without SQLite, which stops at the first damaged
tree page.

Rows are in leaf pages of a table, anywhere in the file; a row that matches its checksum is intact. Pages in the
write-ahead log replace those in the file. Free pages contain deleted rows and are skipped, as far as the free
list is readable. The tree above the leaves is ignored, and nothing is repaired. The format is SQLite's:
https://sqlite.org/fileformat2.html.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from dray.files import read_regular
from dray.store.scribe import POSITION_BITS, LogRow, checksum

_MOST_BYTES = 1 << 40  # effectively unlimited; only the check for a regular file matters
_PAGE = 16384  # page size of all database files of dray
_LEAF = 13
_TREE_PAGES = (2, 5, 10, _LEAF)
_MOST_PAGES_OF_A_ROW = 1 << 20
_WORD = struct.Struct(">I")
_CELLS = struct.Struct(">xxxH")
_WAL_HEADER = struct.Struct(">IIIIIIII")
_FRAME_HEADER = struct.Struct(">IIIIII")
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes by serial type


class Salvage(Struct):
    """Recovered rows by number, and a line per unreadable part. `unverified` counts rows without a checksum."""

    rows: dict[int, LogRow]
    lost: list[str]
    unverified: int = 0


class _Broken(Exception):
    """A row is unreadable; the message names its key and number if possible."""


class _DatabaseFile:
    """The pages of a database, including those in the write-ahead log."""

    def __init__(self, path: Path) -> None:
        content = read_regular(path, _MOST_BYTES)
        self.pages = {at // _PAGE + 1: content[at : at + _PAGE] for at in range(0, len(content), _PAGE)}
        log = Path(f"{path}-wal")
        self.pages.update(_logged(read_regular(log, _MOST_BYTES)) if log.exists() else ())

    def free(self) -> set[int]:
        """Return the numbers of the free pages."""
        found: set[int] = set()
        trunk = _word(self.pages.get(1, b""), 32)
        while trunk and trunk in self.pages and trunk not in found:
            page = self.pages[trunk]
            count = min(_word(page, 4), _PAGE // 4 - 2)
            found |= {trunk, *(_word(page, 8 + 4 * at) for at in range(count))}
            trunk = _word(page, 0)
        return found

    def missing(self) -> list[str]:
        """Return one line per truncated page, and one for missing pages that the header counts. Empty if none is
        missing.
        """
        count, there = _word(self.pages.get(1, b""), 28), len(self.pages)
        lines = [f"pages {there + 1} to {count}: missing"] if there < count < there + _MOST_PAGES_OF_A_ROW else []
        return [*(f"page {at}: cut off" for at, page in self.pages.items() if len(page) < _PAGE), *lines]


def _logged(content: bytes) -> dict[int, bytes]:
    """Return the pages of committed transactions in the write-ahead log, without verifying its checksums."""
    committed: dict[int, bytes] = {}
    if len(content) < _WAL_HEADER.size:
        return committed
    salts = _WAL_HEADER.unpack_from(content)[4:6]
    pages: dict[int, bytes] = {}
    for at in range(_WAL_HEADER.size, len(content), _FRAME_HEADER.size + _PAGE):
        if at + _FRAME_HEADER.size > len(content):
            break
        number, commits, *rest = _FRAME_HEADER.unpack_from(content, at)
        if tuple(rest[:2]) != salts:  # from before the last restart of the write-ahead log
            continue
        pages[number] = content[at + _FRAME_HEADER.size :][:_PAGE]
        if commits:
            committed.update(pages)
            pages.clear()
    return committed


def salvage(path: Path) -> Salvage:
    """Recover the readable rows of a database file. Raises OSError if the file cannot be read.

    Unreadable parts raise nothing; `lost` of the result describes them.
    """
    file = _DatabaseFile(path)
    free = file.free()
    found = Salvage({}, file.missing())
    broken: dict[int, list[str]] = {}
    overflows: set[int] = set()
    for number, page in file.pages.items():
        if number == 1 or number in free:
            continue
        if page and page[0] == _LEAF:
            broken[number] = list(_take(file, page, found, overflows))
        elif page and page[0] not in _TREE_PAGES:
            broken[number] = ["not a page of the table"]
    for number in sorted(broken.keys() - overflows):
        found.lost += [f"page {number}: {problem}" for problem in broken[number]]
    return found


def _take(file: _DatabaseFile, page: bytes, found: Salvage, overflows: set[int]) -> Iterator[str]:
    """Add the rows of a leaf page to `found`, and their overflow pages to `overflows`.

    Yields one line per unreadable row.
    """
    (count,) = _CELLS.unpack_from(page.ljust(8, b"\0"))
    if 8 + 2 * count > len(page):
        yield "its rows cannot be told apart"
        return
    for place in struct.unpack_from(f">{count}H", page, 8):
        try:
            number, record = _record(file, page, place, overflows)
            row = _row(number, record)
        except _Broken as error:
            yield str(error)
        except (IndexError, ValueError, struct.error, KeyError):
            yield f"the row at {place} cannot be read"
        else:
            if row is not None:
                found.rows[number] = row
                found.unverified += len(record) == 5


def _row(number: int, columns: list[object]) -> LogRow | None:
    """Return the row with these columns, or None if they are of another table. Raises _Broken if the row is damaged."""
    if len(columns) not in (5, 6):
        return None
    _, key, value, created, deadline, *check = columns
    if isinstance(deadline, int):
        deadline = float(deadline)  # SQLite stores numbers without a fraction as integers
    if not (
        isinstance(key, str)
        and isinstance(value, bytes | None)
        and isinstance(created, int)
        and isinstance(deadline, float | None)
    ):
        raise _Broken(f"the row {number} has columns of other types")
    if check and check[0] != checksum(number, key, value, created, deadline):
        raise _Broken(f"{key!r} at revision {number >> POSITION_BITS} does not match its checksum")
    return number, key, value, created, deadline


def _record(file: _DatabaseFile, page: bytes, place: int, overflows: set[int]) -> tuple[int, list[object]]:
    """Return the number and the columns of the row at an offset in a page; the row may continue in overflow pages.

    Adds the overflow pages to `overflows`. Raises ValueError if the row is cut off, and KeyError or IndexError if a
    page or byte is missing.
    """
    size, place = _varint(page, place)
    number, place = _varint(page, place)
    most = _PAGE - 35
    here = size
    if size > most:
        least = (_PAGE - 12) * 32 // 255 - 23
        here = least + (size - least) % (_PAGE - 4)
        here = here if here <= most else least
    payload = page[place : place + here]
    after = _word(page, place + here) if here < size else 0
    pieces = [payload]
    for _ in range((size - here) // (_PAGE - 4) + 1 if here < size else 0):
        if not after:
            break
        overflows.add(after)
        pieces.append(file.pages[after][4:])
        after = _word(file.pages[after], 0)
    payload = b"".join(pieces)[:size]
    if len(payload) < size:
        raise ValueError("cut off")
    return number, _columns(payload)


def _columns(payload: bytes) -> list[object]:
    end, place = _varint(payload, 0)
    kinds = []
    while place < end:
        kind, place = _varint(payload, place)
        kinds.append(kind)
    columns: list[object] = []
    for kind in kinds:
        value, place = _column(payload, place, kind)
        columns.append(value)
    return columns


def _column(payload: bytes, place: int, kind: int) -> tuple[object, int]:
    if kind == 0:
        return None, place
    if kind in (8, 9):
        return kind - 8, place
    if kind == 7:
        return struct.unpack_from(">d", payload, place)[0], place + 8
    size = _INTEGERS[kind] if kind < 12 else (kind - 12) // 2
    content = payload[place : place + size]
    if len(content) < size:
        raise ValueError("cut off")
    if kind < 12:
        return int.from_bytes(content, "big", signed=True), place + size
    return (content.decode() if kind % 2 else content), place + size


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = 0
    for at in range(place, place + 8):
        value = value << 7 | content[at] & 0x7F
        if content[at] < 0x80:
            return value, at + 1
    value = value << 8 | content[place + 8]
    return (value - (1 << 64) if value >> 63 else value), place + 9


def _word(content: bytes, place: int) -> int:
    return int(_WORD.unpack_from(content, place)[0]) if len(content) >= place + 4 else 0
