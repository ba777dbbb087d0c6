"""`dray node`: a node agent as a process of its own, for any API server."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli import Subparsers, fail
from dray.cli._banner import not_isolated
from dray.cli._component import add_options, run_component

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.api.simulated import Network
    from dray.client import Client
    from dray.client.config import Config
    from dray.client.http import Http
    from dray.client.readiness import Readiness
    from dray.node.images.puller import ImageSettings


PORT = 10255


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("node", help="run a node agent")
    parser.add_argument("--name", required=True, help="of the node")
    parser.add_argument(
        "--root", required=True, type=Path, metavar="DIR", help="plugin sockets, checkpoint, containers and logs"
    )
    add_runtime_option(parser)
    add_pod_range_option(parser, "of the runtime fake")
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
    add_options(parser, PORT, elects=False)
    parser.set_defaults(run=run)


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
        default="198.19.0.0/16",
        metavar="CIDR",
        help=f"IPv4 or IPv6 network that the pods {whose} get their addresses from. Nothing runs these pods, and the "
        "API server never connects to them. The default is reserved for benchmarks and not routed (%(default)s)",
    )


def pod_range(args: argparse.Namespace) -> Network:
    """The addresses of pods that nothing runs. Raises ValueError."""
    from dray.api import simulated

    try:
        return simulated.pod_range(args.simulated_pod_cidr)
    except ValueError as error:
        raise ValueError(f"--simulated-pod-cidr: {error}") from None


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


def image_settings(args: argparse.Namespace) -> ImageSettings:
    from dray.node.images.puller import ImageSettings

    registries = {}
    for entry in args.registry:
        host, _, url = entry.partition("=")
        if not host or (url and not url.startswith(("http://", "https://"))):
            raise ValueError(f"--registry: expected HOST or HOST=URL, got {entry!r}")
        registries[host] = url
    for directory in args.images:
        if not directory.is_dir():
            raise ValueError(f"--images: {directory} is no directory")
    return ImageSettings(tuple(directory.resolve() for directory in args.images), registries)


def run(args: argparse.Namespace) -> int:
    from dray.node.agent import Agent, AgentError, AgentSettings
    from dray.node.runtimes import RuntimeUnavailable, open_runtime

    try:
        labels, capacity = _pairs("--labels", args.labels), _pairs("--capacity", args.capacity)
        images, addresses = image_settings(args), pod_range(args)
        runtime = open_runtime(args.runtime, args.root.resolve())
    except (ValueError, RuntimeUnavailable) as error:
        return fail("node", error)
    print(f"runtime {runtime.name}{not_isolated(runtime.name)}")
    problems: list[str] = []

    async def work(client: Http, gates: FeatureGates, readiness: Readiness) -> None:
        readiness.start()
        settings = AgentSettings(
            args.name,
            args.root,
            address=args.address,
            log_port=args.log_port,
            labels=labels,
            capacity=capacity,
            cdi_directories=tuple(args.cdi_dir),
            authority=_authority(client.config),
            api_server=_address(client.config),
            images=images,
            gates=gates,
            pod_range=addresses,
        )
        try:
            await Agent(client, settings, runtime=runtime).run()
        except (AgentError, OSError) as error:
            problems.append(str(error))

    async def lists_own_pods(client: Client) -> None:
        from dray.api.types.core import Pod

        await client.list(Pod, fields=f"spec.nodeName={args.name}", limit=1)

    status = run_component("node", args, work, lists_own_pods)
    for problem in problems:
        print(f"dray node: {problem}", file=sys.stderr)
    return 1 if problems else status


def _authority(config: Config) -> str:
    """The cluster's CA, if it has one: an API server without users has none."""
    return config.ca.decode() if config.server.startswith("https") else ""


def _address(config: Config) -> str:
    """HOST:PORT of the API server, for clients in containers."""
    from urllib.parse import urlsplit

    server = urlsplit(config.server)
    host = server.hostname or ""
    return f"{f'[{host}]' if ':' in host else host}:{server.port or (443 if server.scheme == 'https' else 80)}"


def _pairs(option: str, text: str) -> dict[str, str]:
    pairs = {}
    for entry in filter(None, text.split(",")):
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise ValueError(f"{option}: expected NAME=VALUE,…, got {entry!r}")
        pairs[name] = value
    return pairs
