"""`dray up`: run a whole cluster in one process, in the foreground or, with `--detach`, in the background."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dray.assembly.options import ClusterOptions
from dray.cli import Subparsers, fail
from dray.cli._cluster_name import directory_of
from dray.cli._component import add_verbosity, set_up_logging
from dray.cli._given import GIVEN, note_given
from dray.cli._server import add_options, run_server
from dray.cli.node import add_image_options, add_pod_addresses_option, add_pod_range_option, add_runtime_option


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "up",
        help="start a cluster",
        description="Start a cluster in one process. Without options that describe the cluster, the last cluster of this directory is "
        "started again.",
    )
    note_given(parser)
    add_options(parser, gates_enable_apis=True)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML file with options of this command, such as `nodes: 3`"
    )
    parser.add_argument(
        "--detach",
        action="store_true",
        help="run in the background and log to a file in DIR; see `dray status` and `dray down`",
    )
    _add_parts(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def _add_parts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nodes", type=int, default=0, metavar="N", help="number of simulated nodes (default: %(default)s)"
    )
    parser.add_argument(
        "--devices", type=int, default=8, metavar="M", help="devices per simulated node (default: %(default)s)"
    )
    parser.add_argument(
        "--profile",
        default="",
        metavar="NAME*N,…",
        help="simulated nodes of these profiles: dgx-h100*4,mig-a100*2,cpu*10; see `dray docs profiles`",
    )
    parser.add_argument(
        "--adopt-nodes",
        default="",
        metavar="LABELS",
        help="also simulate nodes that you create yourself, if their labels match: rack=7, or pool in (a,b)",
    )
    parser.add_argument(
        "--job-seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds that pods of Jobs without an annotation run on simulated nodes; inf: until deleted (default: %(default)g)",
    )
    parser.add_argument(
        "--agents",
        type=int,
        default=0,
        metavar="N",
        help="number of real nodes agent-0, agent-1, …, each with a node agent and files in DIR/nodes (default: %(default)s)",
    )
    add_runtime_option(parser)
    add_pod_range_option(parser, "of simulated nodes and of runtime `fake`")
    add_pod_addresses_option(parser)
    add_image_options(parser)
    parser.add_argument("--scheduler-config", type=Path, metavar="FILE", help="KubeSchedulerConfiguration to use")
    parser.add_argument(
        "--autoscale",
        type=Path,
        metavar="GROUPS",
        help="YAML file of node groups; simulated nodes of these groups are added and removed as pods need them",
    )
    parser.add_argument(
        "--provider-address",
        default="",
        metavar="HOST:PORT",
        help="with --autoscale: address where Cluster Autoscaler adds and removes the nodes instead (external gRPC protocol)",
    )


def run(args: argparse.Namespace) -> int:
    from dray.assembly.clusters import ClusterError
    from dray.assembly.options import ServerStartError
    from dray.assembly.parts import plan_of

    if args.detach:
        return _detached(args)
    set_up_logging(args.v, args.log_format)
    try:
        args.as_before = _complete(args)
    except ServerStartError as error:
        return fail("up", error, 2)
    except ClusterError as error:
        return fail("up", error)
    return run_server("up", args, ClusterOptions, plan_of)


def _complete(args: argparse.Namespace) -> str:
    """Complete the options from a file: --config, or the options of the last start.

    Returns the message about restored options, or "".
    """
    from dray.assembly import remembered

    file = directory_of(args) / remembered.FILE
    given: frozenset[str] = getattr(args, GIVEN, frozenset()) & {*ClusterOptions.__struct_fields__}
    is_as_before = args.config is None and given <= remembered.INCIDENTAL and file.exists()
    path = file if is_as_before else args.config
    if path is None:
        return ""
    found = remembered.read(path)
    vars(args).update({name: value for name, value in found.items() if name not in given})
    told = ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in found.items())
    return f"started as before: {told}" if is_as_before and found else ""


def _detached(args: argparse.Namespace) -> int:
    """Run the same command line in the background, and print its output until it is ready. Returns the exit status."""
    from dray.assembly.clusters import ClusterDirectory, ClusterError
    from dray.assembly.detached import start
    from dray.assembly.options import ServerStartError

    try:
        directory = directory_of(args)
        cluster = start(directory, [word for word in sys.argv[1:] if word != "--detach"])
    except (ClusterError, ServerStartError) as error:
        return fail("up", error)
    print(cluster.said, end="")
    end = f"dray down{ClusterDirectory(directory).option}"
    print(f"Running in the background (PID {cluster.pid}, log {cluster.log}). Stop it with `{end}`.")
    return 0
