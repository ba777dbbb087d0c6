"""`dray scheduler --shadow`: compare decisions with the cluster's scheduler, without writing to the cluster.

The client rejects every request other than GET before it is sent. There is no lease, and no events are created.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import AsyncExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli import fail
from dray.cli._component import run_part
from dray.cli._output import data

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.api.types.core import Pod
    from dray.client.http import Http
    from dray.client.readiness import Readiness
    from dray.core.configuration import Configuration
    from dray.recordings.following import WriteEvents
    from dray.recordings.recording import Recording
    from dray.scheduler.shadow import ShadowReport


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("shadow mode")
    group.add_argument(
        "--shadow",
        action="store_true",
        help="compare decisions with those of the cluster's scheduler and write nothing to the cluster",
    )
    group.add_argument(
        "--seconds",
        type=float,
        metavar="N",
        help="stop after N seconds and print the report (default: run until Ctrl-C)",
    )
    group.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="compare only pods with this schedulerName; repeatable (default: all pods)",
    )
    group.add_argument("--html", type=Path, metavar="FILE", help="also write the report as an HTML page")
    group.add_argument("--record", metavar="FILE", help="also record the cluster's changes to FILE, for `dray replay`")
    group.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="format of the report (default: %(default)s)"
    )


def misused(args: argparse.Namespace) -> str:
    """Return the error in the options of shadow mode, or ""."""
    if not args.shadow and (args.seconds is not None or args.scheduler_name or args.html or args.record):
        return "--seconds, --scheduler-name, --html and --record need --shadow"
    if args.seconds is not None and not args.seconds > 0:
        return f"--seconds: expected a number above 0, got {args.seconds:g}"
    return ""


def run_shadow(args: argparse.Namespace, configuration: Configuration) -> int:
    """Compare until a signal or for a given time, then print the report. Returns the exit status.

    A failure to write the report is also a failure of the command.
    """
    reports: list[ShadowReport] = []

    async def work(client: Http, gates: FeatureGates, readiness: Readiness) -> None:
        from dray.scheduler.shadow import ShadowScheduler

        names = frozenset(args.scheduler_name)

        def follows(pod: Pod) -> bool:
            return not names or pod.spec.schedulerName in names

        shadow = ShadowScheduler(client, gates, configuration, follows=follows, readiness=readiness)
        async with AsyncExitStack() as stack:
            if args.record:
                await _record(stack, client, args.record)
            try:
                await shadow.run(args.seconds)
            finally:
                reports.append(shadow.report(client.config.server))

    with redirect_stdout(sys.stderr if args.output == "json" else sys.stdout):  # stdout contains only the report
        status = run_part("scheduler", args, work, read_only=True)
    try:
        for report in reports:
            _tell(args, report)
    except OSError as error:
        return fail("scheduler", error)
    return status


async def _record(stack: AsyncExitStack, client: Http, path: str) -> None:
    """Record the cluster's changes to a file until the stack is closed."""
    from dray.api.times import timestamp
    from dray.recordings.following import Follower
    from dray.recordings.history import HistoryFile

    def begin(recording: Recording) -> WriteEvents:
        file = HistoryFile(path, recording)
        stack.callback(file.close)
        return file.write

    follower = Follower(client, time.monotonic)
    await stack.enter_async_context(follower.following())
    follower.begin(timestamp(time.time()), client.config.server, begin)


def _tell(args: argparse.Namespace, report: ShadowReport) -> None:
    """Print the report, and write it as HTML if requested."""
    from dray.replay.shadow_report import page_of, text_of, tree_of

    print(data(tree_of(report), "json") if args.output == "json" else text_of(report), flush=True)
    if args.html:
        args.html.write_text(page_of(report), encoding="utf-8")
