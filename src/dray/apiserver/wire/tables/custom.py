"""Rows of custom resources: the columns that their definition asks for, or name and age.

A definition may have thousands of columns, each of which looks through the whole object or shows all of it. What the
columns of a row look at and show is bounded; those that come after that are empty.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dray.api.custom import jsonpath
from dray.api.custom.kinds import CustomKindVersion
from dray.api.custom.objects import CustomObject, whole
from dray.api.types.apiextensions import CustomResourceColumnDefinition
from dray.apiserver.limits import ROW_VALUES
from dray.apiserver.wire.tables.printer import NAME, Cell, Printer, TableColumn
from dray.apiserver.wire.tables.text import duration, seconds

_VALUE_TEXT = 64  # characters that count as one value; so a row has 320 kB at most
_AGE = CustomResourceColumnDefinition(name="Age", type="date", jsonPath=".metadata.creationTimestamp")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "boolean": bool,
    "date": str,
    "integer": int,
    "number": (int, float),
    "string": (str, int, float),
}


def printer(version: CustomKindVersion) -> Printer:
    """What prints objects of one version."""
    columns = version.spec.additionalPrinterColumns
    if not columns or not all(jsonpath.is_readable(column.jsonPath) for column in columns):
        columns = (_AGE,)
    shown = [TableColumn(c.name, c.type, c.format, c.description, c.priority) for c in columns]
    return Printer((NAME, *shown), partial(_cells, columns))


def _cells(columns: tuple[CustomResourceColumnDefinition, ...], obj: CustomObject, now: float) -> list[Cell | None]:
    tree, reach = whole(obj), jsonpath.PathBudget(ROW_VALUES)
    return [obj.metadata.name, *(_bounded_cell(column, tree, now, reach) for column in columns)]


def _bounded_cell(
    column: CustomResourceColumnDefinition, tree: dict[str, Any], now: float, reach: jsonpath.PathBudget
) -> Cell | None:
    try:
        cell = _cell(column, tree, now, reach)
        reach.spend(len(cell) // _VALUE_TEXT if isinstance(cell, str) else 0)
    except jsonpath.TooFar:
        return None
    return cell


def _cell(
    column: CustomResourceColumnDefinition, tree: dict[str, Any], now: float, reach: jsonpath.PathBudget
) -> Cell | None:
    """The first thing that a path leads to; nothing where there is none, or one of another type."""
    value = jsonpath.first(column.jsonPath, tree, reach)
    if column.type == "date" and isinstance(value, str):
        since = seconds(value)
        return duration(now - since) if since else "<invalid>"
    if column.type == "string" and isinstance(value, (dict, list)):
        return jsonpath.text(value)
    if isinstance(value, bool):
        return value if column.type == "boolean" else str(value).lower() if column.type == "string" else None
    if column.type == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, _TYPES[column.type]) or not isinstance(value, (str, int, float)):
        return None
    return str(value) if column.type == "string" else value
