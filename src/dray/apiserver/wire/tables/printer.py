"""What prints one kind: its columns and the cells of an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dray.api.columns import Cell, TableColumn


class Printer(msgspec.Struct, frozen=True):
    """How objects of one kind become rows; `view` gives what the cells are taken from, where that is not the object."""

    columns: tuple[TableColumn, ...]
    view: Callable[[Any], Any] | None = None
    conditions: Callable[[Any], list[dict[str, str]]] | None = None

    def cells(self, obj: Any, now: float) -> list[Cell | None]:
        seen = obj if self.view is None else self.view(obj)
        return [column.cell(seen, now) for column in self.columns]
