"""`dray replay`: replay a recording, unchanged or with changes, and compare.

Reads a file and writes to no cluster. Exits with 1 if replaying an unchanged recording yields other placements.
`dray.replay.replaying` does the replaying.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dray.assembly.collector import without_collections
from dray.cli import GATES_HELP, Subparsers, fail, problem
from dray.cli._output import data

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.replay.measures import Prices
    from dray.replay.replaying import Replay, Replayed, Setup
    from dray.replay.report import SimulationReport
    from dray.replay.timeline import Timeline


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "replay",
        help="replay a recording, unchanged or with changes",
        description="Replay what `dray record --follow` or `dray trace` wrote, and compare placements, waiting times and "
        "utilisation. Without a change, the recorded placements are checked; with one, both runs are simulated.",
    )
    parser.add_argument("recording", metavar="FILE", help="recording to replay")
    changes = parser.add_argument_group("changes")
    changes.add_argument("--config", type=Path, metavar="FILE", help="KubeSchedulerConfiguration to use")
    changes.add_argument("--feature-gates", default="", metavar="A=true,…", help=GATES_HELP)
    changes.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="PATH",
        help="ResourceSlices, nodes and DeviceClasses that replace recorded ones or are added; repeatable",
    )
    changes.add_argument(
        "--profile",
        metavar="NAME*N,…",
        help="use nodes of these profiles instead of the recorded nodes: dgx-h100*4,cpu*10",
    )
    changes.add_argument("--add-nodes", type=int, default=0, metavar="N", help="number of nodes to add; needs --like")
    changes.add_argument("--like", default="", metavar="NODE", help="node that --add-nodes copies, with its devices")
    changes.add_argument(
        "--taint",
        action="append",
        default=[],
        nargs=2,
        metavar=("TARGET", "KEY=VALUE:NoSchedule"),
        help="taint for a node or for devices (TARGET: NODE or DRIVER/POOL[/DEVICE]); repeatable",
    )
    parser.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="[LABEL=VALUE:]AMOUNT",
        help="hourly price of nodes with this label; the first match counts; repeatable",
    )
    parser.add_argument("--html", metavar="FILE", help="also write the report as an HTML page")
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="output format (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.gates import FeatureGates, GateError
    from dray.api.manifests import ManifestError
    from dray.core.configuration import ConfigurationError
    from dray.recordings.recording import RecordingError
    from dray.sim.changes import ChangeError
    from dray.sim.profiles import ProfileError

    problems = ChangeError, ConfigurationError, GateError, ManifestError, ProfileError, RecordingError, OSError
    try:
        with without_collections():
            report = _replayed(args, FeatureGates.parse(args.feature_gates))
            _write_page(args, report)
    except problems as error:
        files = {RecordingError: args.recording, ConfigurationError: args.config}
        place = next((f"{file}: " for type_, file in files.items() if isinstance(error, type_)), "")
        return fail("replay", f"{place}{problem(error)}", 2)
    print(_shown(report, args.output))
    checks = report.comparison is not None and len(report.runs) == 1
    return int(checks and report.comparison is not None and bool(report.comparison.differences))


def _replayed(args: argparse.Namespace, gates: FeatureGates) -> SimulationReport:
    """Replay the recording, twice if there are changes. Returns the report."""
    from dray.replay.comparison import compare, recorded_placements
    from dray.replay.replaying import Replay, Setup
    from dray.replay.report import Run, SimulationReport

    prices, setup = _prices(args), _setup(args, gates)
    timeline = _timeline(args)
    if setup is not None:
        before = _finished(Replay(timeline, Setup(), is_free=True, prices=prices), "as it was")
        after = _finished(Replay(timeline, setup, is_free=True, prices=prices), "with the change")
        runs = Run("as it was", before.figures), Run("with the change", after.figures)
        return SimulationReport(args.recording, runs, compare(before.placements, after.placements))
    done = _finished(Replay(timeline, is_free=not timeline.has_decisions, prices=prices), "replaying")
    recorded = compare(recorded_placements(timeline), done.placements) if timeline.has_decisions else None
    return SimulationReport(args.recording, (Run("replayed", done.figures),), recorded)


def _finished(replay: Replay, name: str) -> Replayed:
    """Return the result of a replay at its end, or at Ctrl-C."""
    with _progress(name) as tick:
        try:
            found = replay.run(tick)
        except KeyboardInterrupt:
            print(f"dray replay: {name}: broken off; these are the figures so far", file=sys.stderr)
            found = replay.result()
    return found


@contextmanager
def _progress(name: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar in a terminal within the context.

    Gives the function that shows (done, total), or None without a terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(name)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def _timeline(args: argparse.Namespace) -> Timeline:
    """Return the timeline in the recording.

    Warns on stderr about a recording that is cut off. Raises RecordingError if the recording is invalid or has no
    changes.
    """
    from dray.recordings.history import history_from_bytes
    from dray.recordings.recording import RecordingError
    from dray.replay.timeline import timeline_of

    history = history_from_bytes(Path(args.recording).read_bytes())
    if history.is_cut:
        count, until = len(history.events), history.seconds
        print(
            f"dray replay: {args.recording} is cut off; replaying the {count} changes in it, up to second {until:.1f}",
            file=sys.stderr,
        )
    if not history.events:
        raise RecordingError("nothing happens in it: expected what `dray record --follow` or `dray trace` writes")
    return timeline_of(history)


def _setup(args: argparse.Namespace, gates: FeatureGates) -> Setup | None:
    """Return the changes to apply, or None without changes. Raises ChangeError.

    ChangeError is raised unless --add-nodes and --like are given together. Warnings are printed on stderr.
    """
    from dray.assembly.configuration import read_configuration
    from dray.cli.what_if import changes_of, supposed
    from dray.questions.supposing import suppose
    from dray.recordings.manifests import read_manifests
    from dray.replay.replaying import Setup
    from dray.sim.changes import ChangeError

    if bool(args.add_nodes) != bool(args.like) or args.add_nodes < 0:
        raise ChangeError("--add-nodes N and --like NODE belong together, with N from 1")
    configuration = read_configuration(args.config)
    for warning in configuration.warnings:
        print(f"dray replay: {args.config}: {warning}", file=sys.stderr)
    if not (args.config or args.feature_gates or args.filename or args.profile or args.add_nodes or args.taint):
        return None
    objects = (*supposed(args, gates), *read_manifests(args.filename, gates))
    changes = changes_of(args)
    return Setup(
        gates, configuration, objects, bool(args.profile), lambda cluster: [suppose(cluster, one) for one in changes]
    )


def _prices(args: argparse.Namespace) -> Prices:
    """Return the prices of nodes in the options.

    Raises ChangeError if a price is invalid.
    """
    from dray.replay.measures import Prices
    from dray.sim.changes import ChangeError

    rules = []
    for text in args.price:
        label, colon, amount = text.rpartition(":")
        key, equals, value = label.partition("=")
        try:
            price = float(amount)
        except ValueError:
            price = -1.0
        if not 0 <= price < 1e12 or (colon and not (key and equals)):
            raise ChangeError(f"--price {text}: expected AMOUNT or LABEL=VALUE:AMOUNT, as in gpu=h100:98.32")
        rules.append((key, value, price))
    return Prices(rules)


def _write_page(args: argparse.Namespace, report: SimulationReport) -> None:
    if args.html:
        from dray.replay.page import page_of

        Path(args.html).write_text(page_of(report), encoding="utf-8")


def _shown(report: SimulationReport, output: str) -> str:
    from dray.replay.report import text_of, tree_of

    return data(tree_of(report), output) if output == "json" else text_of(report)
