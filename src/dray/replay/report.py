"""Report of one or two runs: a text table with small charts, and JSON data.

Left out: computing figures (`measures`) and the HTML page (`page`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from dray.replay.comparison import Difference, RunComparison
from dray.replay.measures import Figures, PlacedAt, Point

WIDTH = 72  # width of a chart that fits into 80 columns
SHOWN = 4  # number of differences shown in text
_BARS = " ▁▂▃▄▅▆▇█"


class Run(msgspec.Struct, frozen=True):
    """Figures of a run, with its name in tables."""

    name: str
    figures: Figures


class SimulationReport(msgspec.Struct, frozen=True):
    """One run, or two runs of the same load with the comparison of their placements."""

    source: str
    runs: tuple[Run, ...]
    comparison: RunComparison | None = None


ReportRow = tuple[str, list[str]]


def tree_of(report: SimulationReport) -> dict[str, Any]:
    """Convert the report to JSON data."""
    tree: dict[str, Any] = {
        "source": report.source,
        "runs": [{"name": run.name, **msgspec.to_builtins(run.figures)} for run in report.runs],
    }
    if report.comparison is not None:
        tree["placements"] = {
            "same": report.comparison.same,
            "different": [_difference_tree(one) for one in report.comparison.differences],
        }
    return tree


def text_of(report: SimulationReport) -> str:
    """Convert the report to text for a terminal."""
    lines = [*_table([("", [run.name for run in report.runs]), *rows_of(report)])]
    for run in report.runs:
        lines += ["", *_charts(run)]
    if report.comparison is not None:
        lines += ["", *comparison_lines(report.comparison)]
    return "\n".join(lines)


def rows_of(report: SimulationReport) -> list[ReportRow]:
    """Return the table rows: name of a figure, and its text for each run."""
    runs = [run.figures for run in report.runs]

    def row(name: str, value: Callable[[Figures], str]) -> ReportRow:
        return name, [value(one) for one in runs]

    rows = [
        row("nodes, devices", lambda one: f"{one.nodes}, {one.devices}"),
        row("time", lambda one: span(one.seconds) + ("" if one.is_complete else ", broken off")),
        row("pods that came", lambda one: str(one.came)),
        row("pods that got a node", lambda one: str(one.placed)),
        row("pods that ended", lambda one: str(one.ended)),
        row("pods that wait at the end", lambda one: str(one.waiting_now)),
        row("waiting, mean", lambda one: span(one.waiting.mean)),
        row("waiting, median", lambda one: span(one.waiting.median)),
        row("waiting, 95 of 100", lambda one: span(one.waiting.p95)),
        row("waiting, longest", lambda one: span(one.waiting.longest)),
        row("utilisation of devices", lambda one: f"{one.utilisation.mean:.1%}"),
    ]
    drivers = sorted({driver for one in runs for driver in one.utilisation.by_driver})
    rows += [row(f"  of {driver}", partial(_driver, driver)) for driver in drivers if len(drivers) > 1]
    classes = sorted({class_ for one in runs for class_ in one.fragmentation})
    rows += [row(f"largest claim of {class_} that fits, mean", partial(_largest, class_)) for class_ in classes]
    codes = sorted({code for one in runs for code in one.reasons})
    rows += [row(f"kept out by {code}", partial(_reason, code)) for code in codes]
    if any(one.cost is not None for one in runs):
        rows.append(row("cost", lambda one: f"{one.cost.total:.2f}" if one.cost else "-"))
        rows.append(row("  for devices that nobody used", lambda one: f"{one.cost.idle:.2f}" if one.cost else "-"))
    return rows


def _largest(class_: str, figures: Figures) -> str:
    """Return the time average of the largest claim of a class that fits on a node, as text.

    A dash if nothing was recorded.
    """
    points = figures.fragmentation.get(class_, ())
    if not points:
        return "-"
    ends = [time for time, _ in points[1:]] + [max(points[-1][0], points[0][0] + figures.seconds)]
    total = sum(value * (end - time) for (time, value), end in zip(points, ends, strict=True))
    seconds = ends[-1] - points[0][0]
    return f"{total / seconds:.1f}" if seconds else f"{points[-1][1]:.1f}"


def comparison_lines(comparison: RunComparison) -> Iterator[str]:
    """Yield lines about equal and different placements."""
    differences = comparison.differences
    yield f"placements: {comparison.same} the same, {len(differences)} different"
    for one in differences[:SHOWN]:
        yield f"  pod {one.pod}: {place_text(one.before)} → {place_text(one.after)}"
    if len(differences) > SHOWN:
        yield f"  and {len(differences) - SHOWN} more; -o json has all of them"


def place_text(placement: PlacedAt | None) -> str:
    """Return node, devices and waiting time of a placement as text.

    `None` is told as "no node".
    """
    if placement is None:
        return "no node"
    names = sorted(device.device for device in placement.devices)
    devices = f" with {', '.join(names)}" if names else ""
    return f"{placement.node}{devices}, after {span(placement.placed - placement.came)}"


def span(seconds: float) -> str:
    """Return a duration as readable text, such as `2.5 h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def chart(points: Sequence[Point], top: float, width: int = WIDTH) -> str:
    """Return a series as a row of bar characters, each the mean of its column; `top` is the full height.

    Empty without points. A column without points repeats the mean of the column before.
    """
    if not points:
        return ""
    start, end = points[0][0], points[-1][0]
    columns: list[list[float]] = [[] for _ in range(width)]
    for at, value in points:
        columns[min(width - 1, int((at - start) / (end - start or 1.0) * width))].append(value)
    last, bars = 0.0, ""
    for values in columns:
        last = sum(values) / len(values) if values else last
        bars += _BARS[min(len(_BARS) - 1, round(last / (top or 1.0) * (len(_BARS) - 1)))]
    return bars


def _charts(run: Run) -> Iterator[str]:
    yield f"{run.name}:"
    yield "  utilisation, up to 100 %"
    yield f"  |{chart(run.figures.utilisation.over_time, 1.0)}|"
    for class_, points in run.figures.fragmentation.items():
        top = max((value for _, value in points), default=0.0)
        yield f"  largest claim of {class_} that fits, up to {top:.0f}"
        yield f"  |{chart(points, top)}|"


def _driver(driver: str, one: Figures) -> str:
    return f"{one.utilisation.by_driver.get(driver, 0):.1%}"


def _reason(code: str, one: Figures) -> str:
    found = one.reasons.get(code)
    return f"{found.pods} pods, {span(found.seconds)}" if found is not None else "-"


def _table(rows: Sequence[ReportRow]) -> Iterator[str]:
    first = max(len(name) for name, _ in rows)
    widths = [max(len(cells[column]) for _, cells in rows) for column in range(len(rows[0][1]))]
    for name, cells in rows:
        shown = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        yield f"{name.ljust(first)}  {shown}".rstrip()


def _difference_tree(one: Difference) -> dict[str, Any]:
    return {"pod": one.pod, "before": _placement_tree(one.before), "after": _placement_tree(one.after)}


def _placement_tree(one: PlacedAt | None) -> dict[str, Any] | None:
    if one is None:
        return None
    devices = sorted(map(str, one.devices))
    return {"node": one.node, "devices": devices, "came": one.came, "placed": one.placed}
