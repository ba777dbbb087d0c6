"""Report as a single HTML page with tables and plots, without scripts and without external resources.

The page's content security policy forbids all requests, so opening it reveals nothing. Plots are SVG drawn here; the
browser shows values under the pointer (`title`). Left out: computing figures (`measures`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from dray.replay.measures import Point
from dray.replay.report import Run, SimulationReport, comparison_lines, rows_of, span

_WIDTH, _HEIGHT = 720, 180
_LEFT, _BOTTOM = 44, 22
_COLOURS = ("var(--first)", "var(--second)")
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #5c6570; --line: #d5d9de; --paper: #fff;
  --first: #1f6feb; --second: #b35900; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --faint: #a2abb5; --line: #3b424a; --paper: #14171a;
  --first: #6cb0ff; --second: #ffb05c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 780px; padding: 24px 16px 48px; }
h1 { font-size: 22px; margin: 0; } h2 { font-size: 17px; margin: 28px 0 6px; } p { color: var(--faint); margin: 2px 0 12px; }
table { border-collapse: collapse; width: 100%; } th, td { padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); }
th { text-align: left; font-weight: 500; } td, thead th + th { text-align: right; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--faint); font-size: 11px; }
.grid { stroke: var(--line); } .key { display: inline-block; width: 12px; height: 3px; vertical-align: middle; margin: 0 5px 0 14px; }
ul { padding-left: 18px; overflow-wrap: anywhere; } .wide { overflow-x: auto; }
"""
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
"""


def page_of(report: SimulationReport) -> str:
    """Return the complete HTML page of a report."""
    title = f"dray replay: {report.source}"
    body = [f"<h1>{escape(title)}</h1>", *_summary(report), *_plots(report), *_waiting(report), *_comparison(report)]
    return document(title, body)


def document(title: str, body: Iterable[str]) -> str:
    """Return a complete HTML page with this title and body."""
    return _HEAD.format(title=escape(title), style=_STYLE) + "\n".join(body) + "\n</main>\n</body>\n</html>\n"


def _summary(report: SimulationReport) -> Iterator[str]:
    if not all(run.figures.is_complete for run in report.runs):
        yield "<p>A run was broken off: these are the figures so far.</p>"
    names = "".join(f'<th scope="col">{escape(run.name)}</th>' for run in report.runs)
    yield f'<h2>Figures</h2><div class="wide"><table><thead><tr><th scope="col">figure</th>{names}</tr></thead><tbody>'
    for name, cells in rows_of(report):
        shown = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        yield f'<tr><th scope="row">{escape(name.strip())}</th>{shown}</tr>'
    yield "</tbody></table></div>"


def _plots(report: SimulationReport) -> Iterator[str]:
    yield "<h2>Utilisation</h2><p>Devices in use, of those that are published.</p>"
    yield _plot(
        "utilisation over time", report.runs, [run.figures.utilisation.over_time for run in report.runs], 1.0, "%"
    )
    for class_ in sorted({class_ for run in report.runs for class_ in run.figures.fragmentation}):
        series = [run.figures.fragmentation.get(class_, ()) for run in report.runs]
        top = max((value for points in series for _, value in points), default=0.0)
        yield f"<h2>Fragmentation of {escape(class_)}</h2><p>The largest claim that still fits on a node.</p>"
        yield _plot(f"largest claim of {class_} over time", report.runs, series, top, "")


def _plot(name: str, runs: Sequence[Run], several: Sequence[Sequence[Point]], top: float, unit: str) -> str:
    end = max((points[-1][0] for points in several if points), default=0.0)
    marks = "".join(_mark(part, top, unit) for part in (0.0, 0.5, 1.0))
    times = "".join(_time(part, end) for part in (0.0, 0.5, 1.0))
    lines = "".join(
        _line(run.name, points, end, top, colour) for run, points, colour in zip(runs, several, _COLOURS, strict=False)
    )
    key = "".join(
        f'<span class="key" style="background:{colour}"></span>{escape(run.name)}'
        for run, colour in zip(runs, _COLOURS, strict=False)
    )
    size = f"0 0 {_WIDTH} {_HEIGHT}"
    picture = f'<svg viewBox="{size}" role="img" aria-label="{escape(name)}">{marks}{times}{lines}</svg>'
    return f"{picture}<p>{key}</p>" if len(runs) > 1 else picture


def _line(name: str, points: Sequence[Point], end: float, top: float, colour: str) -> str:
    if not points:
        return ""
    path = " ".join(f"{_x(at, end):.1f},{_y(value, top):.1f}" for at, value in points)
    values = [value for _, value in points]
    said = escape(f"{name}: from {min(values):.2f} to {max(values):.2f}")
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"><title>{said}</title></polyline>'
    )


def _mark(part: float, top: float, unit: str) -> str:
    y = _y(part * top, top)
    value = f"{part * top * 100:.0f} %" if unit else f"{part * top:g}"
    line = f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value}</text>'


def _time(part: float, end: float) -> str:
    anchor = {0.0: "start", 0.5: "middle", 1.0: "end"}[part]
    return f'<text x="{_x(part * end, end):.1f}" y="{_HEIGHT - 5}" text-anchor="{anchor}">{escape(span(part * end))}</text>'


def _x(at: float, end: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - 2) * (at / end if end else 0.0)


def _y(value: float, top: float) -> float:
    return 8 + (_HEIGHT - _BOTTOM - 8) * (1 - (value / top if top else 0.0))


def _waiting(report: SimulationReport) -> Iterator[str]:
    """Yield bars for the seconds that pods waited, by reason."""
    codes = sorted({code for run in report.runs for code in run.figures.reasons})
    if not codes:
        return
    most = max(found.seconds for run in report.runs for found in run.figures.reasons.values()) or 1.0
    yield "<h2>Waiting by reason</h2><p>The seconds of all pods together, by the reason that kept them from most nodes.</p>"
    height = 22 * len(codes) * len(report.runs) + 4
    yield f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="waiting by reason">'
    y = 2
    for code in codes:
        for run, colour in zip(report.runs, _COLOURS, strict=False):
            found = run.figures.reasons.get(code)
            seconds, pods = (found.seconds, found.pods) if found is not None else (0.0, 0)
            label = escape(f"{code}: {span(seconds)}, {pods} pods")
            yield f'<rect x="220" y="{y}" width="{480 * seconds / most:.1f}" height="16" fill="{colour}"><title>{label}</title></rect>'
            yield f'<text x="212" y="{y + 12}" text-anchor="end">{label}</text>'
            y += 22
    yield "</svg>"


def _comparison(report: SimulationReport) -> Iterator[str]:
    if report.comparison is None:
        return
    first, *others = comparison_lines(report.comparison)
    yield f"<h2>Placements</h2><p>{escape(first)}</p>"
    if others:
        yield "<ul>" + "".join(f"<li>{escape(line.strip())}</li>" for line in others) + "</ul>"
