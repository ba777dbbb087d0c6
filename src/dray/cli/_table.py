"""Tables as kubectl prints them: names are never cut, columns are as wide as their content.

Lines may be longer than the screen. On narrow screens titles and bars are shorter, and the remark of a row moves
below the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dray.api.quoting import visible

if TYPE_CHECKING:
    from rich.text import Text

    TableCell = str | Text

_GAP = "  "
BARS = (20, 10, 6)  # width of a bar, on wide and narrower screens


class Column(NamedTuple):
    """A column: its title, and a shorter title for narrow screens."""

    title: str
    short: str = ""
    right: bool = False


class ShareBar(NamedTuple):
    """A bar: used and unavailable shares, and the unhealthy part of the used share."""

    used: float
    lost: float = 0.0
    unhealthy: float = 0.0


class Row(NamedTuple):
    """Cells of a row, and a remark at its end."""

    cells: tuple[TableCell | ShareBar, ...]
    remark: str = ""


def lines(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> list[Text]:
    """Return the lines of a table for a screen of this width; None: unlimited."""
    from rich.text import Text

    rows = [row._replace(remark=visible(row.remark)) for row in rows]
    has_remarks = any(row.remark for row in rows)
    for narrow, bar_width in ((False, BARS[0]), (True, BARS[0]), (True, BARS[1]), (True, BARS[2])):
        drawn = [[_cell(cell, bar_width) for cell in row.cells] for row in rows]
        titles = [column.short or column.title if narrow else column.title for column in columns]
        sizes = [max(len(title), *(row[at].cell_len for row in drawn), 0) for at, title in enumerate(titles)]
        total = sum(sizes) + len(_GAP) * (len(sizes) - 1)
        if width is None or total <= width:
            break
    beside = has_remarks and (width is None or total + len(_GAP) + max(len(row.remark) for row in rows) <= width)
    head = [Text(title, style="bold") for title in titles] + ([Text("PROBLEM", style="bold")] if beside else [])
    found = [_line(head, columns, sizes)]
    for row, cells in zip(rows, drawn, strict=True):
        remark = Text(row.remark, style="yellow")
        found.append(_line([*cells, remark] if beside else cells, columns, sizes))
        if row.remark and not beside:
            found += _below(row.remark, width)
    return found


def _line(cells: Sequence[Text], columns: Sequence[Column], sizes: Sequence[int]) -> Text:
    """Return one line with its cells padded to the column widths."""
    from rich.text import Text

    line = Text()
    for at, cell in enumerate(cells):
        padding = " " * (sizes[at] - cell.cell_len) if at < len(sizes) else ""
        right = at < len(columns) and columns[at].right
        line.append(_GAP if at else "")
        for piece in (padding, cell) if right else (cell, padding):
            line.append(piece)
    line.rstrip()
    return line


def _below(remark: str, width: int | None) -> list[Text]:
    """Return the remark of a row as lines below it."""
    import textwrap

    from rich.text import Text

    wrapped = textwrap.wrap(
        remark, max(width or 80, 40), initial_indent="  └ ", subsequent_indent="    ", break_long_words=False
    )
    return [Text(line, style="yellow") for line in wrapped]


def _cell(cell: TableCell | ShareBar, bar_width: int) -> Text:
    """Return a cell as text."""
    from rich.text import Text

    if isinstance(cell, ShareBar):
        return bar(cell, bar_width)
    return Text(visible(cell)) if isinstance(cell, str) else cell


def bar(share: ShareBar, width: int = BARS[0]) -> Text:
    """Return a bar as text, `██████████▒▒░░░░░░░░  50 %`: used, unavailable, free. The unhealthy part is red."""
    from rich.text import Text

    full, lost = round(share.used * width), round(share.lost * width)
    if share.lost and not lost:
        lost = 1
    full = min(full, width - lost)
    sick = min(full, max(1, round(share.unhealthy * width))) if share.unhealthy else 0
    text = Text()
    text.append("█" * (full - sick), style="cyan")
    text.append("█" * sick, style="red")
    text.append("▒" * lost, style="yellow")
    text.append("░" * (width - full - lost), style="dim")
    text.append(f" {share.used * 100:3.0f} %")
    return text
