"""`dray node`: a node agent as a process of its own, for any API server."""

from __future__ import annotations

import argparse
from pathlib import Path

from dray.assembly.description import not_isolated
from dray.assembly.options import SIMULATED_PODS
from dray.cli import Subparsers, fail, options_of
from dray.cli._component import add_options, run_part

PORT = 10255


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("node", help="run a node agent")
    parser.add_argument("--name", help="of the node")
    parser.add_argument("--root", type=Path, metavar="DIR", help="plugin sockets, checkpoint, containers and logs")
    add_runtime_option(parser)
    add_pod_range_option(parser, "of the runtime fake")
    add_pod_addresses_option(parser)
    parser.add_argument("--address", default="127.0.0.1", help="of the node, for its pods and logs (%(default)s)")
    parser.add_argument("--log-port", type=int, default=0, help="where the API server reads logs, 0 for any")
    parser.add_argument("--labels", default="", metavar="K=V,…", help="of the node")
    parser.add_argument("--capacity", default="", metavar="R=Q,…", help="in place of what the machine has")
    parser.add_argument(
        "--cdi-dir",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="where CDI specs are, the last one first (/etc/cdi, /var/run/cdi, DIR/cdi)",
    )
    add_image_options(parser)
    _add_simulation_options(parser)
    add_options(parser, PORT, elects=False)
    parser.set_defaults(run=run)


def _add_simulation_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "simulated nodes", "instead of an agent: nodes that exist in the API only, and whose pods nothing runs"
    )
    group.add_argument("--simulated", type=int, default=0, metavar="N", help="simulate so many nodes")
    group.add_argument("--devices", type=int, default=8, metavar="M", help="devices of each of them (%(default)s)")
    group.add_argument("--profile", default="", metavar="P*N,…", help="simulate nodes of these profiles, as `dray up`")
    group.add_argument(
        "--name-prefix",
        default="simulated",
        metavar="NAME",
        help="the nodes of --simulated are NAME-0, … (%(default)s)",
    )
    group.add_argument(
        "--job-seconds", type=float, default=10.0, metavar="S", help="how long pods of Jobs run (%(default)g)"
    )
    group.add_argument(
        "--untainted",
        action="store_true",
        help="leave out the taint dray.dev/simulated, which keeps pods off that do not tolerate simulated nodes",
    )


def add_runtime_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime",
        default="auto",
        choices=("auto", "fake", "process", "bwrap", "oci"),
        help="what runs containers; auto is bwrap where it works, else process",
    )


def add_pod_range_option(parser: argparse.ArgumentParser, whose: str) -> None:
    parser.add_argument(
        "--simulated-pod-cidr",
        default=SIMULATED_PODS,
        metavar="CIDR",
        help=f"IPv4 or IPv6 network that the pods {whose} get their addresses from. Nothing runs these pods, and the "
        "API server never connects to them. The default is reserved for benchmarks and not routed (%(default)s)",
    )


def add_pod_addresses_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pod-addresses",
        default="",
        metavar="CIDR",
        help="give each pod that runs an address of its own of this part of 127.0.0.0/8, such as 127.64.0.0/10, at which "
        "it can listen (status.podIP) at the same port as others; without, pods share the address of their node",
    )


def add_image_options(parser: argparse.ArgumentParser) -> None:
    """With one of these options containers run in their images; without, on the host's file system."""
    parser.add_argument(
        "--images", action="append", default=[], type=Path, metavar="DIR", help="OCI layouts and archives of images"
    )
    parser.add_argument(
        "--registry",
        action="append",
        default=[],
        metavar="HOST[=URL]",
        help="pull images of this registry, from a mirror at URL if given; * is any registry",
    )


def run(args: argparse.Namespace) -> int:
    if args.simulated or args.profile:
        return _run_simulated(args)
    if not args.name or args.root is None:
        return fail("node", "expected --name and --root, or --simulated N or --profile P*N for simulated nodes", 2)
    from dray.assembly.standalone_node import NodeOptions, StandaloneNode
    from dray.node.runtimes import RuntimeUnavailable

    try:
        node = StandaloneNode(options_of(NodeOptions, args))
    except (ValueError, RuntimeUnavailable) as error:
        return fail("node", error)
    print(f"runtime {node.runtime.name}{not_isolated(node.runtime.name)}")
    return run_part("node", args, node.run, node.lists_own_pods)


def _run_simulated(args: argparse.Namespace) -> int:
    from dray.assembly.simulated_nodes import SimulationOptions, StandaloneSimulation

    if args.name or args.root is not None:
        return fail("node", "--name and --root are of an agent: simulated nodes have --name-prefix and no directory", 2)
    try:
        simulation = StandaloneSimulation(options_of(SimulationOptions, args))
    except ValueError as error:
        return fail("node", error)
    return run_part("node", args, simulation.run)
