"""Tables of numbered rows, encoded by columns: sent to a page completely first, then as changes.

A row keeps its number as long as it exists, and numbers are never reused. A message is encoded once and sent to all
pages of the picture. `rows` creates the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from typing import Any

TableRow = tuple[Any, ...]
Columns = dict[str, Any]

COLUMNS: dict[str, tuple[str, ...]] = {
    "nodes": ("name", "zone", "rack", "ready", "cordoned", "labels"),
    "classes": ("name", "selectors", "extended"),
    "drivers": (
        "name",
        "nodes",
        "pools",
        "slices",
        "devices",
        "unhealthy",
        "incomplete",
        "generation",
        "versions",
        "operations",
    ),
    "pools": ("driver", "name", "node", "generation", "slices", "expected", "problem", "counts"),
    "devices": ("pool", "name", "cell", "state", "flags", "claims", "since", "used", "share"),
    "claims": (
        "namespace",
        "name",
        "state",
        "created",
        "allocated",
        "node",
        "devices",
        "requests",
        "consumers",
        "pods",
        "owner",
        "prepared",
    ),
    "groups": ("namespace", "name", "kind", "pods", "placed", "wanted", "claims", "state", "fares", "domain", "waits"),
    "pods": ("namespace", "name", "state", "node", "created", "cause", "claims", "group", "owner"),
    "causes": ("code", "text", "like", "pods", "oldest"),
}
"""Tables in the order in which they are sent, with their columns after `id`."""


class Strings:
    """Repeated strings, each sent once and then referenced by number. Number 0 is the empty string."""

    def __init__(self) -> None:
        self.all: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}
        self._sent = 1

    def number(self, text: str) -> int:
        """Return the number of a string, added if it is new.

        This is the index in `all`.
        """
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.all)
            self.all.append(text)
        return number

    def take_new(self) -> tuple[int, list[str]]:
        """Return the number of the first string added since the last call, and all strings added since."""
        first, self._sent = self._sent, len(self.all)
        return first, self.all[first:]


class RowTable:
    """Rows of one table by key. Unchanged rows are not sent again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: dict[int, TableRow] = {}
        self._columns = ("id", *COLUMNS[name])
        self._numbers: dict[Hashable, int] = {}
        self._next = itertools.count()
        self._changed: dict[int, None] = {}
        self._gone: list[int] = []

    def number(self, key: Hashable) -> int:
        """Return the number of a row, which may be added later.

        A key keeps its number.
        """
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = next(self._next)
        return found

    def find(self, key: Hashable) -> int | None:
        """Return the number of a key, or None.

        None if the key has no number.
        """
        return self._numbers.get(key)

    def get(self, key: Hashable) -> TableRow | None:
        """Return the row of a key, or None."""
        number = self._numbers.get(key)
        return self.rows.get(number) if number is not None else None

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._numbers)

    def put(self, key: Hashable, row: TableRow) -> bool:
        """Add or replace a row. Returns whether the row changed."""
        number = self.number(key)
        if self.rows.get(number) == row:
            return False
        self.rows[number] = row
        self._changed[number] = None
        return True

    def drop(self, key: Hashable) -> TableRow | None:
        """Remove a row. Returns the row, or None if there was none."""
        number = self._numbers.pop(key, None)
        row = self.rows.pop(number, None) if number is not None else None
        if number is not None and row is not None:
            self._changed.pop(number, None)
            self._gone.append(number)
        return row

    def take_changes(self, most: int) -> Columns | None:
        """Return up to `most` rows changed since the last call, in wire form, or None.

        All deleted rows are included. None if nothing changed.
        """
        if not self._changed and not self._gone:
            return None
        changed = [*itertools.islice(self._changed, most)]
        for number in changed:
            del self._changed[number]
        gone, self._gone = self._gone, []
        found: Columns = {"set": self._packed([(n, self.rows[n]) for n in changed])} if changed else {}
        return found | {"gone": gone} if gone else found

    def pieces(self, rows: list[tuple[int, TableRow]], most: int) -> Iterator[Columns]:
        """Yield all rows in wire form, `most` at a time."""
        for first in range(0, len(rows), most):
            yield {"set": self._packed(rows[first : first + most])}

    def _packed(self, rows: list[tuple[int, TableRow]]) -> Columns:
        """Return rows by column."""
        columns = zip(*((number, *row) for number, row in rows), strict=True)
        return dict(zip(self._columns, columns, strict=True))


def ranges(numbers: Any) -> list[list[int]]:
    """Return a set of numbers in wire form: `[[first, count], …]`.

    The numbers may come in any order. Empty if there are none.
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][0] + found[-1][1] == number:
            found[-1][1] += 1
        else:
            found.append([number, 1])
    return found
