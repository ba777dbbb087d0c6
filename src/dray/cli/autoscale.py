"""`dray autoscale simulate|plan|run`: which nodes to add for waiting pods, which to remove, and why.

`simulate` reads files, `plan` a running cluster; both change nothing and exit with 1 if a pod remains without a node.
`run` adds and removes nodes through a provider with Cluster Autoscaler's external gRPC protocol. `dray.autoscaling`
does the planning.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.cli import GATES_HELP, Subparsers, fail, problem
from dray.cli._cluster import add_options, read_all
from dray.cli._output import data

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.autoscaling.groups import NodeGroups
    from dray.client import Client
    from dray.client.readiness import Readiness
    from dray.sim.cluster import Cluster


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "autoscale",
        help="plan which nodes to add for waiting pods and which to remove",
        description="Find the cheapest nodes for waiting pods, considering all node groups together.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    simulate = actions.add_parser("simulate", help="plan for recordings and manifests; needs no cluster")
    simulate.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="MANIFEST",
        help="manifest of pods to run; -: standard input; repeatable",
    )
    simulate.add_argument(
        "--recording",
        action="append",
        default=[],
        metavar="FILE",
        help="recording of the existing cluster; repeatable (default: an empty cluster)",
    )
    simulate.add_argument(
        "-n", "--namespace", default="default", help="namespace for objects without one (default: %(default)s)"
    )
    plan = actions.add_parser("plan", help="plan for a running cluster; changes nothing")
    add_options(plan)
    loop = actions.add_parser("run", help="add and remove nodes of a running cluster through a provider")
    _add_loop(loop)
    for parser in (simulate, plan, loop):
        parser.add_argument(
            "--groups", required=True, type=Path, metavar="FILE", help="YAML file that describes the node groups"
        )
    for parser, action in ((simulate, "simulate"), (plan, "plan")):
        parser.set_defaults(run=run, action=action)
        _add_answer(parser)
    loop.set_defaults(run=run_loop)


def _add_loop(parser: argparse.ArgumentParser) -> None:
    from dray.cli import _component

    parser.add_argument(
        "--provider",
        required=True,
        metavar="HOST:PORT",
        help="address of the provider that adds and removes nodes (Cluster Autoscaler's external gRPC protocol)",
    )
    parser.add_argument("--cacert", type=Path, metavar="FILE", help="CA certificate of the provider (default: no TLS)")
    parser.add_argument("--cert", type=Path, metavar="FILE", help="client certificate to present to the provider")
    parser.add_argument("--key", type=Path, metavar="FILE", help="private key of --cert")
    parser.add_argument(
        "--interval", type=float, default=10.0, metavar="S", help="seconds between two plans (default: %(default)g)"
    )
    _component.add_options(parser, 8085)


def _add_answer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expander",
        choices=("price", "least-waste", "priority"),
        help="what to minimize (default: from the --groups file)",
    )
    parser.add_argument(
        "--alternative-price",
        type=float,
        metavar="P",
        help="hourly penalty per fallback to a lower-ranked alternative (default: from the --groups file)",
    )
    parser.add_argument(
        "--seconds", type=float, default=3.5, metavar="S", help="time limit of the search (default: %(default)g)"
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="output format (default: %(default)s)"
    )
    parser.add_argument("--feature-gates", default="", metavar="A=true,…", help=GATES_HELP)


def run(args: argparse.Namespace) -> int:
    from dray.api.errors import ApiError
    from dray.api.gates import FeatureGates, GateError
    from dray.api.manifests import ManifestError
    from dray.autoscaling.groups import GroupError
    from dray.client.config import ConfigError
    from dray.sim.demands import DemandError

    try:
        gates = FeatureGates.parse(args.feature_gates)
        asked = _from_files(args, gates) if args.action == "simulate" else _from_cluster(args, gates)
        return _answer(args, *asked)
    except GroupError as error:
        return fail(f"autoscale {args.action}", f"{args.groups}: {error}", 2)
    except (ApiError, ConfigError, DemandError, GateError, ManifestError, OSError) as error:
        return fail(f"autoscale {args.action}", error, 2)


def _from_files(args: argparse.Namespace, gates: FeatureGates) -> tuple[Cluster, NodeGroups, list[Any]]:
    """Return the recorded cluster with the demand of manifests, the node groups, and the DaemonSets.

    The DaemonSets are not part of the cluster.
    """
    from dray.api.types.apps import DaemonSet
    from dray.recordings.manifests import read_manifests, read_recordings
    from dray.sim.cluster import Cluster
    from dray.sim.demands import demand_of
    from dray.sim.what_if import place

    recorded = read_recordings(args.recording, gates)
    wanted = read_manifests(args.filename, gates)
    daemons = [one for one in (*recorded, *wanted) if isinstance(one, DaemonSet)]
    groups = _groups(args, [*recorded, *wanted], gates)
    there = [one for one in recorded if not isinstance(one, DaemonSet)]
    cluster = Cluster([*groups.classes([*recorded, *wanted]), *there], gates=gates)
    cluster.settle()
    asked = [one for one in wanted if not isinstance(one, DaemonSet)]
    if asked:
        place(cluster, demand_of(asked, args.namespace))
    return cluster, groups, daemons


def _from_cluster(args: argparse.Namespace, gates: FeatureGates) -> tuple[Cluster, NodeGroups, list[Any]]:
    """Return the running cluster, the node groups, and the DaemonSets.

    The DaemonSets are not part of the cluster.
    """
    from dray.api.types.apps import DaemonSet
    from dray.autoscaling.upcoming import complete_nodes
    from dray.sim.cluster import Cluster

    objects, unread, _ = asyncio.run(read_all(args, DaemonSet))
    if unread:
        print(f"dray autoscale plan: you may not list {', '.join(unread)}; the plan leaves them out", file=sys.stderr)
    groups = _groups(args, objects, gates)
    daemons = [one for one in objects if isinstance(one, DaemonSet)]
    cluster = Cluster([one for one in objects if not isinstance(one, DaemonSet)], gates=gates)
    complete_nodes(cluster, groups, time.time())
    cluster.settle()
    return cluster, groups, daemons


def _groups(args: argparse.Namespace, objects: list[Any], gates: FeatureGates) -> NodeGroups:
    """Return the node groups in the file, with settings overridden by options.

    Raises GroupError if the file or the price of alternatives is invalid.
    """
    from msgspec.structs import replace

    from dray.autoscaling.groups import Expander, GroupError, read

    groups = read(args.groups.read_text(), objects, gates)
    if args.alternative_price is not None and not 0 <= args.alternative_price < float("inf"):
        raise GroupError(f"--alternative-price: expected a number from 0, got {args.alternative_price}")
    settings = groups.settings
    if args.expander:
        settings = replace(settings, expander=Expander(args.expander))
    if args.alternative_price is not None:
        settings = replace(settings, alternativePrice=args.alternative_price)
    return replace(groups, settings=settings)


def _answer(args: argparse.Namespace, cluster: Cluster, groups: NodeGroups, daemons: list[Any]) -> int:
    """Plan nodes to add and remove, and print the plan. Returns 1 if a pod stays without a node, else 0."""
    from dray.autoscaling import report
    from dray.questions import plan

    found, down = plan(cluster, groups, daemons, args.seconds)
    if args.output == "json":
        print(data(report.tree(found, down, groups), args.output))
    else:
        print("\n".join(report.lines(found, down, groups)))
    return 1 if found.unhelped else 0


def run_loop(args: argparse.Namespace) -> int:
    """Add and remove nodes until a signal. Returns the exit status.

    The status is 2 if the groups, feature gates or credentials cannot be used.
    """
    from dray.api.gates import FeatureGates, GateError
    from dray.autoscaling.groups import GroupError, read
    from dray.cli._component import lease_of, run_part

    try:
        gates = FeatureGates.parse(args.feature_gates)
        groups = read(args.groups.read_text(), (), gates)
        trusted = _credentials(args)
    except (GroupError, GateError, OSError, ValueError) as error:
        place = f"{args.groups}: " if isinstance(error, GroupError) else ""
        return fail("autoscale run", f"{place}{problem(error)}", 2)

    async def loop(client: Client, gates: FeatureGates, readiness: Readiness) -> None:
        from dray.autoscaling.external import ExternalProvider
        from dray.autoscaling.loop import Autoscaler
        from dray.client import SharedInformers

        informers = SharedInformers(client)
        async with ExternalProvider(args.provider, credentials=trusted) as provider:
            scaler = Autoscaler(client, informers, provider, groups, gates=gates, interval=args.interval)
            await informers.start()
            await informers.synced()
            readiness.start()
            await scaler.run()

    return run_part("autoscale", args, loop, lease=lease_of("autoscale", args))


def _credentials(args: argparse.Namespace) -> Any:
    """Return the TLS credentials for the provider, or None.

    None without --cacert. Raises ValueError if a certificate or key is given without --cacert.
    """
    if args.cacert is None:
        if args.cert or args.key:
            raise ValueError("--cert and --key need --cacert")
        return None
    from dray.autoscaling.external import credentials

    return credentials(args.cacert, args.cert, args.key)
