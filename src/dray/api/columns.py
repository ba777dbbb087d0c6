"""Columns of the tables that `kubectl get` prints: a name and the source of the cells.

The source is a path in the object or a function of the object. `apiserver.wire.tables` builds the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from dray.api.cells import UNKNOWN, age

Cell: TypeAlias = str | int | float | bool
ColumnSource: TypeAlias = str | Callable[[Any], Any]  # a dotted attribute path, or a function of the object


class TableColumn(msgspec.Struct, frozen=True):
    """A table column; `cell` takes an object and the current time. Only `-o wide` shows columns of priority 1.

    The time is in seconds since 1970.
    """

    name: str
    cell: Callable[[Any, float], Cell | None]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


def text(name: str, source: ColumnSource, empty: str = "", format: str = "") -> TableColumn:
    """Return a string column; `empty` is shown for missing values."""
    read = _reader(source)
    return TableColumn(name, lambda obj, now: read(obj) or empty, format=format)


def wide(name: str, source: ColumnSource, empty: str = "", format: str = "") -> TableColumn:
    """Return a string column that only `-o wide` shows."""
    return msgspec.structs.replace(text(name, source, empty, format), priority=1)


def number(name: str, source: ColumnSource) -> TableColumn:
    """Return an integer column; 0 is shown for missing values."""
    read = _reader(source)
    return TableColumn(name, lambda obj, now: read(obj) or 0, type="integer")


def flag(name: str, source: ColumnSource) -> TableColumn:
    """Return a boolean column; False is shown for missing values."""
    read = _reader(source)
    return TableColumn(name, lambda obj, now: bool(read(obj)), type="boolean")


def since(name: str, source: ColumnSource, empty: str = UNKNOWN) -> TableColumn:
    """Return a column with the time since a timestamp; `empty` is shown for missing values."""
    read = _reader(source)

    def cell(obj: Any, now: float) -> Cell:
        then = read(obj)
        return age(then, now) if then else empty

    return TableColumn(name, cell)


def _reader(source: ColumnSource) -> Callable[[Any], Any]:
    return attrgetter(source) if isinstance(source, str) else source


NAME = text("Name", "metadata.name", format="name")
AGE = since("Age", "metadata.creationTimestamp")
