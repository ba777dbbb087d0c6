"""Report of a shadow scheduler: text, JSON data, and an HTML page.

Left out: comparing (`dray.scheduler.shadow`).
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from html import escape
from statistics import median
from typing import Any

import msgspec

from dray.replay.page import document
from dray.replay.report import span
from dray.scheduler.shadow import ShadowedPod, ShadowReport, ShadowResult

SHOWN = 10  # number of pods shown per result in text
_MEANING = {
    ShadowResult.SAME: "the same node",
    ShadowResult.TIE: "another node that is as good",
    ShadowResult.DIFFERENT: "a node that dray finds better",
    ShadowResult.REFUSED: "dray refuses the node that was chosen",
    ShadowResult.ONLY_THEIRS: "dray finds no node",
    ShadowResult.UNDECIDED: "dray would search for longer than a shadow can",
    ShadowResult.ONLY_OURS: "given up there, dray finds a node",
}


def tree_of(report: ShadowReport) -> dict[str, Any]:
    """Convert the report to JSON data."""
    tree: dict[str, Any] = msgspec.to_builtins(report)
    tree["our_seconds"], tree["their_seconds"] = times_of(report.our_seconds), times_of(report.their_seconds)
    return tree


def times_of(seconds: Sequence[float]) -> dict[str, float]:
    """Return count, median, 95th percentile and maximum of times; only the count if there are none."""
    ordered = sorted(seconds)
    if not ordered:
        return {"count": 0}
    p95 = ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]
    return {"count": len(ordered), "median": median(ordered), "p95": p95, "longest": ordered[-1]}


def text_of(report: ShadowReport) -> str:
    """Convert the report to text for a terminal."""
    lines = [_headline(report)]
    lines += [f"  {count:6}  {meaning}" for meaning, count in _rows(report)]
    lines += [f"  {name}: {shown}" for name, shown in _times(report)]
    for result, pods in _by_result(report):
        lines += ["", f"{_MEANING[result]}:", *(f"  {pod_line(one)}" for one in pods[:SHOWN])]
        if len(pods) > SHOWN:
            lines.append(f"  and {len(pods) - SHOWN} more; -o json has all of them")
    if decisive := _decisive(report):
        lines += ["", "the score that made the difference:", *(f"  {count:6}  {name}" for name, count in decisive)]
    return "\n".join(lines)


def pod_line(one: ShadowedPod) -> str:
    """Return one line about a pod."""
    if one.result is ShadowResult.ONLY_OURS:
        return f"{one.pod}: dray places it on {one.ours}; there: {one.why}"
    if one.result in (ShadowResult.ONLY_THEIRS, ShadowResult.UNDECIDED):
        return f"{one.pod}: placed on {one.theirs}; dray: {one.why}"
    if one.result is ShadowResult.REFUSED:
        return f"{one.pod}: placed on {one.theirs}, dray chooses {one.ours}, since {one.theirs}: {one.why}"
    scores = ", ".join(f"{score.score} {score.ours:.0f} to {score.theirs:.0f}" for score in one.scores if score.lead)
    return f"{one.pod}: placed on {one.theirs}, dray chooses {one.ours}" + (f" ({scores})" if scores else "")


def page_of(report: ShadowReport) -> str:
    """Return the complete HTML page of the report."""
    title = f"dray shadow: {report.server}" if report.server else "dray shadow"
    body = [f"<h1>{escape(title)}</h1>", f"<p>{escape(_headline(report))}.</p>"]
    body.append(_table([(meaning, str(count)) for meaning, count in _rows(report)]))
    body += ["<h2>Times</h2>", _table(list(_times(report)))]
    if decisive := _decisive(report):
        body += [
            "<h2>The score that made the difference</h2>",
            _table([(name, str(count)) for name, count in decisive]),
        ]
    for result, pods in _by_result(report):
        items = "".join(f"<li>{escape(pod_line(one))}</li>" for one in pods)
        body.append(f"<h2>{escape(_MEANING[result].capitalize())}</h2><ul>{items}</ul>")
    return document(title, body)


def _headline(report: ShadowReport) -> str:
    total = sum(report.results.values())
    return f"{total} {'pod' if total == 1 else 'pods'} compared in {span(report.seconds)}"


def _rows(report: ShadowReport) -> list[tuple[str, int]]:
    return [(_MEANING[result], report.results.get(result.value, 0)) for result in ShadowResult]


def _times(report: ShadowReport) -> Iterator[tuple[str, str]]:
    names = ("dray decides in", report.our_seconds), ("the other scheduler binds or gives up in", report.their_seconds)
    for name, seconds in names:
        found = times_of(seconds)
        if found["count"]:
            yield name, f"{span(found['median'])} (median), {span(found['p95'])} (95 of 100), {span(found['longest'])}"


def _by_result(report: ShadowReport) -> Iterator[tuple[ShadowResult, list[ShadowedPod]]]:
    for result in ShadowResult:
        pods = [one for one in report.pods if one.result is result]
        if pods and result is not ShadowResult.TIE:
            yield result, pods


def _decisive(report: ShadowReport) -> list[tuple[str, int]]:
    return Tally(one.decisive for one in report.pods if one.decisive).most_common()


def _table(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(shown)}</td></tr>' for name, shown in rows)
    return f'<div class="wide"><table><tbody>{cells}</tbody></table></div>'
