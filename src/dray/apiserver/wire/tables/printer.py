"""Printer of one kind: its columns and the cells of an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dray.api.columns import Cell, TableColumn


class Printer(msgspec.Struct, frozen=True):
    """Prints objects of one kind as table rows. `view`, if set, converts an object before cells are computed."""

    columns: tuple[TableColumn, ...]
    view: Callable[[Any], Any] | None = None
    conditions: Callable[[Any], list[dict[str, str]]] | None = None

    def cells(self, obj: Any, now: float) -> list[Cell | None]:
        """Return the cells of an object; `now` is in seconds since the epoch."""
        seen = obj if self.view is None else self.view(obj)
        return [column.cell(seen, now) for column in self.columns]
