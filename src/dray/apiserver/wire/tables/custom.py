"""Table rows of custom resources: the definition's additionalPrinterColumns, or name and age.

A definition may have thousands of columns, each of which may traverse or print the whole object. The work of one row
is limited; columns beyond the limit are empty.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from dray.api.cells import duration, seconds
from dray.api.columns import NAME, Cell, TableColumn
from dray.api.custom import jsonpath
from dray.api.custom.kinds import CustomKindVersion
from dray.api.custom.objects import CustomObject, whole
from dray.api.types.apiextensions import CustomResourceColumnDefinition
from dray.api.types.meta import ObjectMeta
from dray.api.wire import Tree
from dray.apiserver.limits import ROW_VALUES
from dray.apiserver.wire.tables.printer import Printer

_VALUE_TEXT = 64  # characters that count as one value, so a row has at most 320 kB
_AGE = CustomResourceColumnDefinition(name="Age", type="date", jsonPath=".metadata.creationTimestamp")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "boolean": bool,
    "date": str,
    "integer": int,
    "number": (int, float),
    "string": (str, int, float),
}


class _CustomRow(NamedTuple):
    """An object and the remaining budget of its row."""

    metadata: ObjectMeta
    tree: Tree
    reach: jsonpath.PathBudget


def printer(version: CustomKindVersion) -> Printer:
    """Return the printer for objects of one version."""
    columns = version.spec.additionalPrinterColumns
    if not columns or not all(jsonpath.is_readable(column.jsonPath) for column in columns):
        columns = (_AGE,)
    shown = [
        TableColumn(c.name, partial(_bounded_cell, c), c.type, c.format, c.description, c.priority) for c in columns
    ]
    return Printer((NAME, *shown), _view)


def _view(obj: CustomObject) -> _CustomRow:
    return _CustomRow(obj.metadata, whole(obj), jsonpath.PathBudget(ROW_VALUES))


def _bounded_cell(column: CustomResourceColumnDefinition, row: _CustomRow, now: float) -> Cell | None:
    """Return a cell, or None if the row's budget is exhausted."""
    try:
        cell = _cell(column, row.tree, now, row.reach)
        row.reach.spend(len(cell) // _VALUE_TEXT if isinstance(cell, str) else 0)
    except jsonpath.TooFar:
        return None
    return cell


def _cell(column: CustomResourceColumnDefinition, tree: Tree, now: float, reach: jsonpath.PathBudget) -> Cell | None:
    """Return the first value at a column's path, or None if there is none or its type differs.

    A date becomes its age at time `now` (seconds since the epoch), or "<invalid>" if it is no timestamp.
    """
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
