"""`dray node`: run a node agent, or simulated nodes, as a separate process for any API server."""

from __future__ import annotations

import argparse
from pathlib import Path

from dray.assembly.description import not_isolated
from dray.assembly.options import SIMULATED_PODS
from dray.cli import Subparsers, fail, options_of
from dray.cli._component import add_options, run_part

PORT = 10255


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("node", help="run a node agent, or simulated nodes")
    parser.add_argument("--name", help="name of the node")
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="directory for plugin sockets, checkpoint, containers and logs"
    )
    add_runtime_option(parser)
    add_pod_range_option(parser, "of the runtime fake")
    add_pod_addresses_option(parser)
    parser.add_argument(
        "--address", default="127.0.0.1", help="address of the node, for its pods and logs (default: %(default)s)"
    )
    parser.add_argument(
        "--log-port",
        type=int,
        default=0,
        help="port where the API server reads container logs; 0: any free port (default: %(default)s)",
    )
    parser.add_argument("--labels", default="", metavar="K=V,…", help="labels of the node")
    parser.add_argument(
        "--capacity",
        default="",
        metavar="R=Q,…",
        help="capacity of the node, for example cpu=4,memory=8Gi (default: that of the machine)",
    )
    parser.add_argument(
        "--cdi-dir",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="directory of CDI specs; of several, later ones take precedence (default: /etc/cdi, /var/run/cdi, ROOT/cdi)",
    )
    add_image_options(parser)
    _add_simulation_options(parser)
    add_options(parser, PORT, elects=False)
    parser.set_defaults(run=run)


def _add_simulation_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "simulated nodes", "instead of an agent: nodes that exist in the API only, and whose pods nothing runs"
    )
    group.add_argument("--simulated", type=int, default=0, metavar="N", help="number of simulated nodes")
    group.add_argument(
        "--devices", type=int, default=8, metavar="M", help="devices per simulated node (default: %(default)s)"
    )
    group.add_argument(
        "--profile",
        default="",
        metavar="P*N,…",
        help="simulated nodes of these profiles, as for `dray up`: dgx-h100*4,cpu*10",
    )
    group.add_argument(
        "--name-prefix",
        default="simulated",
        metavar="NAME",
        help="simulated nodes are called NAME-0, NAME-1, … (default: %(default)s)",
    )
    group.add_argument(
        "--job-seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds that pods of Jobs run on simulated nodes (default: %(default)g)",
    )
    group.add_argument(
        "--untainted",
        action="store_true",
        help="do not set the taint dray.dev/simulated, which keeps away pods that do not tolerate simulated nodes",
    )


def add_runtime_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime",
        default="auto",
        choices=("auto", "fake", "process", "bwrap", "oci"),
        help="container runtime; auto: bwrap where it works, else process (default: %(default)s)",
    )


def add_pod_range_option(parser: argparse.ArgumentParser, whose: str) -> None:
    parser.add_argument(
        "--simulated-pod-cidr",
        default=SIMULATED_PODS,
        metavar="CIDR",
        help=f"IPv4 or IPv6 network for the addresses of pods {whose}. Nothing runs these pods, and the API server never "
        "connects to them. The default is reserved for benchmarking and not routed (default: %(default)s)",
    )


def add_pod_addresses_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pod-addresses",
        default="",
        metavar="CIDR",
        help="part of 127.0.0.0/8, such as 127.64.0.0/10, from which each running pod gets its own address (status.podIP), so "
        "that several pods can listen on one port (default: pods share the address of their node)",
    )


def add_image_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for sources of images. Without them, containers use the files of the host."""
    parser.add_argument(
        "--images",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="directory with OCI layouts and image archives; repeatable",
    )
    parser.add_argument(
        "--registry",
        action="append",
        default=[],
        metavar="HOST[=URL]",
        help="allow pulling images from this registry, from a mirror if URL is given; *: any registry; repeatable (default: none)",
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
    """Run simulated nodes until a signal. Returns the exit status.

    The status is 2 if options of an agent are given.
    """
    from dray.assembly.simulated_nodes import SimulationOptions, StandaloneSimulation

    if args.name or args.root is not None:
        return fail("node", "--name and --root are of an agent: simulated nodes have --name-prefix and no directory", 2)
    try:
        simulation = StandaloneSimulation(options_of(SimulationOptions, args))
    except ValueError as error:
        return fail("node", error)
    return run_part("node", args, simulation.run)
