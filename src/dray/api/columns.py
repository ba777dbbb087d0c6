"""Columns of the tables that `kubectl get` shows: a name, and where the cell of an object comes from.

A cell is the value at a path, or what a function makes of the object. Left out: printing (`apiserver.wire.tables`).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from dray.api.cells import UNKNOWN, age

Cell: TypeAlias = str | int | float | bool
Source: TypeAlias = str | Callable[[Any], Any]  # a path of attributes, or a function of the object


class TableColumn(msgspec.Struct, frozen=True):
    """A column of a table; `cell` takes an object and the current time. Priority 1 is shown by `-o wide` only."""

    name: str
    cell: Callable[[Any, float], Cell | None]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


def text(name: str, source: Source, empty: str = "", format: str = "") -> TableColumn:
    """Returns a column of texts; `empty` is shown where there is none."""
    read = _reader(source)
    return TableColumn(name, lambda obj, now: read(obj) or empty, format=format)


def wide(name: str, source: Source, empty: str = "", format: str = "") -> TableColumn:
    """Returns a column of texts that only `-o wide` shows."""
    return msgspec.structs.replace(text(name, source, empty, format), priority=1)


def number(name: str, source: Source) -> TableColumn:
    """Returns a column of numbers; 0 is shown where there is none."""
    read = _reader(source)
    return TableColumn(name, lambda obj, now: read(obj) or 0, type="integer")


def flag(name: str, source: Source) -> TableColumn:
    """Returns a column of yes or no."""
    read = _reader(source)
    return TableColumn(name, lambda obj, now: bool(read(obj)), type="boolean")


def since(name: str, source: Source, empty: str = UNKNOWN) -> TableColumn:
    """Returns a column that shows how long ago something was."""
    read = _reader(source)

    def cell(obj: Any, now: float) -> Cell:
        then = read(obj)
        return age(then, now) if then else empty

    return TableColumn(name, cell)


def _reader(source: Source) -> Callable[[Any], Any]:
    return attrgetter(source) if isinstance(source, str) else source


NAME = text("Name", "metadata.name", format="name")
AGE = since("Age", "metadata.creationTimestamp")
