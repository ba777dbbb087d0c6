"""What prints one kind: its columns and the cells of an object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

Cell: TypeAlias = str | int | float | bool


class TableColumn(msgspec.Struct, frozen=True):
    """A column of a table. Priority 1 is shown by `-o wide` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Printer(msgspec.Struct, frozen=True):
    """How objects of one kind become rows; `cells` takes the object and the current time."""

    columns: tuple[TableColumn, ...]
    cells: Callable[[Any, float], Sequence[Cell | None]]
    conditions: Callable[[Any], list[dict[str, str]]] | None = None


NAME = TableColumn("Name", format="name")
AGE = TableColumn("Age")


def plain(*columns: str) -> tuple[TableColumn, ...]:
    """Text columns that are always shown."""
    return tuple(TableColumn(name) for name in columns)


def counts(*columns: str) -> tuple[TableColumn, ...]:
    """Columns of numbers."""
    return tuple(TableColumn(name, type="integer") for name in columns)


def flags(*columns: str) -> tuple[TableColumn, ...]:
    """Columns of yes or no."""
    return tuple(TableColumn(name, type="boolean") for name in columns)


def wide(*columns: str) -> tuple[TableColumn, ...]:
    """Text columns that only `-o wide` shows."""
    return tuple(TableColumn(name, priority=1) for name in columns)
