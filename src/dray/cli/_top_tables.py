"""Tables of `dray top`: pools, nodes, devices, claims and groups.

Names are never cut. Colours mean in use (cyan), free (green), unavailable (yellow) and unhealthy (red); a remark has
the reason. `top` reads the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dray.assembly.description import counted
from dray.cli._table import Column, Row, ShareBar, lines

if TYPE_CHECKING:
    from rich.text import Text

COLOURS = {
    "free": "green",
    "allocated": "cyan",
    "shared": "cyan",
    "share": "cyan",
    "blocked": "yellow",
    "tainted": "yellow",
    "unhealthy": "red",
    "unusable": "magenta",
}
_COUNTS = (
    Column("TOTAL", right=True),
    Column("ALLOCATED", "USED", right=True),
    Column("AVAILABLE", "FREE", right=True),
    Column("UNAVAILABLE", "OUT", right=True),
)
# Columns to sort by; numbers are sorted in descending order.
SORT_KEYS: Mapping[str, tuple[str, ...]] = {
    "pools": ("driver", "pool", "node", "total", "allocated", "available", "unavailable", "utilisation"),
    "nodes": ("node", "driver", "total", "allocated", "available", "unavailable", "utilisation"),
    "devices": ("driver", "pool", "device", "node", "state", "claim"),
    "claims": ("namespace", "name", "state", "devices", "node", "created"),
    "groups": ("namespace", "name", "state", "pods", "placed", "domain", "created"),
}
_FIELDS = {"devices": "devices", "node": "nodes"}  # field names of claims that differ from the column


def sorted_rows(what: str, rows: Sequence[Any], key: str) -> list[Any]:
    """Return the rows sorted by a column. The sort is stable."""

    def value(row: Any) -> Any:
        found = getattr(row, _FIELDS.get(key, key) if what == "claims" else key)
        return len(found) if key == "devices" else found

    descending = bool(rows) and isinstance(value(rows[0]), int | float)
    return sorted(rows, key=value, reverse=descending)


def picture(what: str, rows: Sequence[Any], width: int | None, *, wide: bool) -> list[Text]:
    """Return the lines of a table, with totals below pools and nodes."""
    draw = {"pools": _pools, "nodes": _nodes, "devices": _devices, "claims": _claims, "groups": _groups}[what]
    return [*draw(rows, width, wide), *_summary(what, rows)]


def _summary(what: str, rows: Sequence[Any]) -> list[Text]:
    """Return the line with totals, for pools and nodes."""
    from rich.text import Text

    if what not in ("pools", "nodes") or not rows:
        return []
    total, allocated, available, unavailable = (
        sum(getattr(row, name) for row in rows) for name in ("total", "allocated", "available", "unavailable")
    )
    number = len(rows) if what == "pools" else len({row.node for row in rows})
    counts = f"{allocated} allocated, {available} available, {unavailable} unavailable"
    return [Text(f"{counted(number, what.removesuffix('s'))}, {counted(total, 'device')}: {counts}")]


def _share(row: Any) -> ShareBar:
    """Return the utilisation bar of a row, from its device counts."""
    total = row.total or 1
    return ShareBar(row.allocated / total, row.unavailable / total, row.unhealthy / total)


def _numbers(row: Any) -> tuple[str, ...]:
    """Return total, allocated, available and unavailable devices of a row as text."""
    return tuple(str(number) for number in (row.total, row.allocated, row.available, row.unavailable))


def _remark(row: Any) -> str:
    """Return the remark of a row: its problem and the reasons for unavailable devices.

    Empty if there is none.
    """
    return "; ".join(text for text in (row.problem, *row.why) if text)


def _pools(rows: Sequence[Any], width: int | None, wide: bool) -> list[Text]:
    """Return the lines of the table of pools, for a screen of this width."""
    more = (Column("SLICES", right=True), Column("GENERATION", right=True)) if wide else ()
    columns = (Column("DRIVER"), Column("POOL"), Column("NODE"), *_COUNTS, Column("UTILISATION", "USE"), *more)
    return lines(
        columns,
        [
            Row(
                (
                    row.driver,
                    row.pool,
                    row.node,
                    *_numbers(row),
                    _share(row),
                    *((str(row.slices), str(row.generation)) if wide else ()),
                ),
                _remark(row),
            )
            for row in rows
        ],
        width,
    )


def _nodes(rows: Sequence[Any], width: int | None, wide: bool) -> list[Text]:
    columns = (Column("NODE"), Column("DRIVER"), *_COUNTS, Column("UTILISATION", "USE"))
    found = [Row((row.node or "-", row.driver, *_numbers(row), _share(row)), _remark(row)) for row in rows]
    return lines(columns, found, width)


def _devices(rows: Sequence[Any], width: int | None, wide: bool) -> list[Text]:
    """Return the lines of the table of devices, for a screen of this width."""
    from rich.text import Text

    from dray.questions.device_tree import lines as device_lines

    found = [*device_lines(rows)]
    fits = (Column("STILL FITS"),) if any(line.fits for line in found) else ()
    more = (Column("CAPACITY"), Column("ATTRIBUTES")) if wide else ()
    titles = ("DRIVER", "POOL", "DEVICE", "NODE", "STATE", "CLAIM", "USED BY")
    drawn = []
    for line in found:
        row, is_device = line.row, line.state in COLOURS and line.state != "share"
        state = ShareBar(line.used) if line.used is not None else Text(line.state, style=COLOURS[line.state])
        extra: tuple[str, ...] = (line.fits,) if fits else ()
        extra += ((_pairs(row.capacity), _pairs(row.attributes)) if is_device else ("", "")) if wide else ()
        cells = row.driver, row.pool, line.name, row.node, state, line.claim, _few(line.used_by), *extra
        drawn.append(Row(cells, row.problem if is_device else ""))
    return lines((*map(Column, titles), *fits, *more), drawn, width)


def _claims(rows: Sequence[Any], width: int | None, wide: bool) -> list[Text]:
    """Return the lines of the table of claims, for a screen of this width."""
    titles = ("NAMESPACE", "NAME", "STATE", "WANTS")
    more = (Column("DEVICE NAMES"),) if wide else ()
    columns = (*map(Column, titles), Column("DEVICES", right=True), Column("NODE"), Column("USED BY"), *more)
    found = []
    for row in rows:
        extra = (", ".join(row.devices),) if wide else ()
        cells = row.namespace, row.name, row.state, row.wants, str(len(row.devices))
        found.append(Row((*cells, _few(row.nodes), _few(row.used_by), *extra)))
    return lines(columns, found, width)


def _groups(rows: Sequence[Any], width: int | None, wide: bool) -> list[Text]:
    """Return the lines of the table of groups, for a screen of this width."""
    more = (Column("TOPOLOGY"), Column("WORKLOAD")) if wide else ()
    titles = ("NAMESPACE", "NAME", "POLICY", "STATE")
    columns = (*map(Column, titles), Column("PLACED", right=True), Column("DOMAIN"), Column("NODES"), *more)
    found = []
    for row in rows:
        policy = f"gang of {row.wants}" if row.policy == "gang" else row.policy
        extra = (row.topology, row.workload) if wide else ()
        cells = row.namespace, row.name, policy, row.state, f"{row.placed}/{row.pods}", row.domain, _few(row.nodes)
        found.append(Row((*cells, *extra), row.waits_for))
    return lines(columns, found, width)


def _pairs(values: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _few(names: Sequence[str]) -> str:
    """Return the first two names and the number of further ones.

    Empty without names.
    """
    return ", ".join(names[:2]) + (f" +{len(names) - 2}" if len(names) > 2 else "")
