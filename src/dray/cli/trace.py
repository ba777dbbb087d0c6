"""`dray trace`: create load for `dray replay`, randomly or from files of public traces.

Writes a recording and uses no cluster. `dray.replay.traces` generates and reads traces.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli import Subparsers, fail

if TYPE_CHECKING:
    from dray.api.wire import Tree
    from dray.replay.traces import TraceNode, TracePod


_EXAMPLES = """examples:
  dray trace generate --pods 1000 --sizes 1:60,2:20,4:20 --profile 'dgx-h100*8' --class gpu.nvidia.com -o day.json.gz
  dray trace read alibaba-2023 openb_pod_list_default.csv --machines openb_node_list_gpu_node.csv -o alibaba.json.gz
  dray trace read philly cluster_job_log --nodes 100 --devices 8 --limit 5000 -o philly.json.gz
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "trace",
        help="generate load for `dray replay`, or convert a public trace",
        description="Write a recording for `dray replay`: pods, when they arrive and how long they run.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ways = parser.add_subparsers(title="ways", metavar="WAY", required=True)
    generate = ways.add_parser("generate", help="generate random pods; the same seed gives the same pods")
    generate.add_argument("--pods", type=int, required=True, metavar="N", help="number of pods")
    generate.add_argument(
        "--seconds",
        type=float,
        default=86400.0,
        metavar="S",
        help="seconds over which pods arrive (default: 86400, one day)",
    )
    generate.add_argument(
        "--arrival", default="poisson", help="distribution of arrivals: poisson, even or daily (default: %(default)s)"
    )
    generate.add_argument(
        "--runtime", type=float, default=3600.0, metavar="S", help="mean run time in seconds (default: %(default)g)"
    )
    generate.add_argument(
        "--duration",
        default="exponential",
        help="distribution of run times: exponential, lognormal or even (default: %(default)s)",
    )
    generate.add_argument(
        "--sizes",
        default="1:1",
        metavar="N:WEIGHT,…",
        help="devices per pod with relative frequency, such as 1:60,2:20 (default: %(default)s)",
    )
    generate.add_argument(
        "--grouped",
        type=float,
        default=0.0,
        metavar="PART",
        help="fraction of arrivals that are groups of pods, from 0 to 1 (default: %(default)g)",
    )
    generate.add_argument(
        "--group-size", type=int, default=4, metavar="N", help="pods per group (default: %(default)s)"
    )
    generate.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the random numbers (default: %(default)s)"
    )
    _add_hardware(generate)
    generate.set_defaults(run=run, read=_generated)
    read = ways.add_parser("read", help="convert a public trace from files that you downloaded")
    read.add_argument("format", choices=("alibaba-2020", "alibaba-2023", "philly"))
    read.add_argument(
        "jobs",
        metavar="FILE",
        help="file with the jobs of the trace: pai_task_table.csv, openb_pod_list_*.csv or cluster_job_log",
    )
    read.add_argument("--machines", metavar="FILE", help="file with the machines of the trace, which become nodes")
    read.add_argument("--limit", type=int, metavar="N", help="read only the first N pods")
    _add_hardware(read)
    read.set_defaults(run=run, read=_read)


def _add_hardware(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="file to write; compressed if it ends in .gz"
    )
    parser.add_argument("--nodes", type=int, default=0, metavar="N", help="number of simulated nodes")
    parser.add_argument(
        "--devices", type=int, default=8, metavar="N", help="devices per simulated node (default: %(default)s)"
    )
    parser.add_argument(
        "--profile", default="", metavar="NAME*N,…", help="simulated nodes of these profiles: dgx-h100*4,cpu*10"
    )
    parser.add_argument(
        "--class",
        dest="class_name",
        default="gpu.example.com",
        metavar="NAME",
        help="device class that pods request (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    from dray.recordings.history import HistoryFile
    from dray.replay.traces import TraceError, events_of, recording_of
    from dray.sim.profiles import ProfileError

    try:
        pods: list[TracePod] = args.read(args)
        nodes, others = _hardware(args)
        made = recording_of(pods, nodes, others, args.class_name, "dray trace")
        file = HistoryFile(args.output, made)
        file.write(events_of(pods))
        file.close()
    except (OSError, ProfileError, TraceError) as error:
        return fail("trace", error, 2)
    count = sum(tree["kind"] == "Node" for tree in made.objects)
    print(f"{args.output}: {len(pods)} pods, {count} nodes")
    return 0


def _generated(args: argparse.Namespace) -> list[TracePod]:
    """Return randomly generated pods."""
    from dray.replay.traces.generator import LoadShape, generate

    return generate(
        LoadShape(
            args.pods,
            args.seconds,
            args.runtime,
            args.arrival,
            args.duration,
            _sizes(args.sizes),
            args.grouped,
            args.group_size,
            seed=args.seed,
        )
    )


def _sizes(text: str) -> dict[int, float]:
    """Return device counts with their weights.

    The text is N:WEIGHT,… with numbers of devices. Raises TraceError if it is not.
    """
    from dray.replay.traces import TraceError

    try:
        pairs = [word.split(":") for word in text.split(",")]
        return {int(size): float(weight) for size, weight in pairs}
    except ValueError as error:
        raise TraceError(f"--sizes {text}: expected N:WEIGHT,… as in 1:60,2:20,8:20") from error


def _read(args: argparse.Namespace) -> list[TracePod]:
    """Return the pods in a public trace.

    Sorted by arrival, at most --limit. Raises TraceError, which names the file, if the trace is invalid.
    """
    from dray.replay.traces import TraceError
    from dray.replay.traces.formats import read

    try:
        found = read(args.format, Path(args.jobs).read_bytes())
    except TraceError as error:
        raise TraceError(f"{args.jobs}: {error}") from error
    if found.left_out:
        print(f"dray trace: {found.left_out} rows say no beginning or end and are left out", file=sys.stderr)
    return sorted(found.pods, key=lambda pod: pod.at)[: args.limit]


def _hardware(args: argparse.Namespace) -> tuple[list[TraceNode], list[Tree]]:
    """Return the plain nodes, and the objects of profiles. Raises TraceError if there are none."""
    from dray.replay.traces import TIME, TraceError, TraceNode
    from dray.replay.traces.formats import FORMATS
    from dray.sim import hardware
    from dray.sim.profiles import objects_of

    machines = getattr(args, "machines", None)
    nodes: list[TraceNode] = []
    if machines:
        try:
            nodes += FORMATS[args.format].read_machines(Path(machines).read_bytes())
        except TraceError as error:
            raise TraceError(f"{machines}: {error}") from error
    nodes += [TraceNode(hardware.node_name(number), args.devices, 64_000, 262_144) for number in range(args.nodes)]
    others = objects_of(args.profile, TIME, len(nodes)) if args.profile else []
    if not nodes and not others:
        raise TraceError("there is nothing to run on: expected --nodes N, --profile NAME*N or --machines FILE")
    return nodes, others
