"""`dray driver example`: run an example driver; `dray driver test`: find out what a driver does wrong."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from dray.assembly.component import on_signals, reached
from dray.cli import fail, problem
from dray.cli._component import add_verbosity, set_up_logging

if TYPE_CHECKING:
    from dray.client import Client
    from dray.driver import Driver, Runner
    from dray.driverkit import DriverReport, DriverUnderTest, Patience

KINDS = ("cpu", "gpu", "mig", "network", "nic")
_DRAY = (sys.executable, "-c", "import sys; from dray.cli import main; sys.exit(main())")
_EXAMPLE_DEVICES = 130  # more than fit into one slice, so that pools of several slices are tested too


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("driver", help="example drivers, and a conformance test for any driver")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_example(actions)
    _add_test(actions)


def _add_example(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "example",
        help="run an example driver",
        description="Runs an example driver in the foreground. On a node (--node) it serves the node agent; `network` "
        "without a node publishes the devices that all nodes share.",
    )
    parser.add_argument("kind", nargs="?", choices=KINDS, default="gpu", help="which one (%(default)s)")
    parser.add_argument("--node", default="", metavar="NAME", help="the node that it runs on")
    parser.add_argument("--kubeconfig", default="", help="how to reach the API server ($KUBECONFIG, ~/.kube/config)")
    parser.add_argument("--context", default="", help="context of the kubeconfig")
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="of a `dray node`: the same as --kubelet-dir DIR --cdi-dir DIR/cdi"
    )
    parser.add_argument(
        "--kubelet-dir",
        type=Path,
        default=Path("/var/lib/kubelet"),
        metavar="DIR",
        help="the node agent's (%(default)s)",
    )
    parser.add_argument(
        "--cdi-dir", type=Path, default=Path("/var/run/cdi"), metavar="DIR", help="for CDI specs (%(default)s)"
    )
    parser.add_argument("--devices", type=int, default=8, metavar="N", help="how many devices there are (%(default)s)")
    parser.add_argument(
        "--devices-file", type=Path, metavar="FILE", help="names of the GPUs, read again and again: edit to change them"
    )
    parser.add_argument(
        "--unhealthy-file",
        type=Path,
        metavar="FILE",
        help="names of GPUs that are reported as unhealthy; may be edited",
    )
    parser.add_argument(
        "--taint-unhealthy",
        choices=("None", "NoSchedule", "NoExecute"),
        default="",
        metavar="EFFECT",
        help="taint devices that are unhealthy: None, NoSchedule or NoExecute",
    )
    parser.add_argument("--instance", default="", metavar="UID", help="sockets of its own, for a rolling update")
    parser.add_argument(
        "--healthcheck-port", type=int, metavar="PORT", help="answer gRPC health probes there, 0 for any port"
    )
    parser.add_argument("--withdraw", action="store_true", help="delete the published slices at the end")
    parser.add_argument("--webhook-port", type=int, metavar="PORT", help="serve the validating webhook, 0 for any port")
    parser.add_argument(
        "--webhook-config", type=Path, metavar="FILE", help="where to write the configuration that turns the webhook on"
    )
    parser.add_argument("--manifests", action="store_true", help="print class, account and role to apply, and end")
    add_verbosity(parser)
    parser.set_defaults(run=run_example)


def run_example(args: argparse.Namespace) -> int:
    if args.manifests:
        print((files("dray.driver.example") / "manifests" / f"{args.kind}.yaml").read_text(), end="")
        return 0
    from dray.client.config import ConfigError
    from dray.driver.sockets import SocketError

    set_up_logging(args.v)
    if args.root is not None:
        args.kubelet_dir, args.cdi_dir = args.root, args.root / "cdi"
    try:
        asyncio.run(_example(args))
    except (ConfigError, SocketError, OSError) as error:
        return fail("driver example", problem(error))
    return 0


async def _example(args: argparse.Namespace) -> None:
    from dray.client.config import ConfigError, load
    from dray.client.http import Http
    from dray.driver import Runner

    if args.kind != "network" and not args.node:
        raise ConfigError("--node is required: the devices of this example belong to a node")
    stopping = on_signals()
    driver = _driver(args)
    async with Http(load(args.kubeconfig, args.context)) as client, _webhook(args):
        runner = Runner(
            driver,
            client,
            node=args.node,
            kubelet_dir=args.kubelet_dir,
            cdi_dir=args.cdi_dir,
            instance=args.instance,
            withdraw=args.withdraw,
            taint_unhealthy=args.taint_unhealthy,
        )
        async with runner, _healthcheck(args, runner):
            where = f", node {args.node}" if args.node else ""
            print(f"driver {driver.name} works for {client.config.server}{where}", flush=True)
            if await reached("dray driver example", client, _lists_slices, stopping):
                await runner.publisher.published()
                print("ready", flush=True)
                await stopping.wait()


async def _lists_slices(client: Client) -> None:
    from dray.api.types.resource import ResourceSlice

    await client.list(ResourceSlice, limit=1)


def _driver(args: argparse.Namespace) -> Driver:
    from dray.driver.example import BandwidthDriver, CpuDriver, GpuDriver, NetworkDriver, PartitionDriver

    match args.kind:
        case "cpu":
            return CpuDriver(args.node, args.devices)
        case "network":
            return NetworkDriver(args.devices)
        case "mig":
            return PartitionDriver(args.node, args.devices)
        case "nic":
            return BandwidthDriver(args.node, args.devices)
    return GpuDriver(args.node, args.devices, args.devices_file, args.unhealthy_file)


@asynccontextmanager
async def _healthcheck(args: argparse.Namespace, runner: Runner) -> AsyncIterator[None]:
    if args.healthcheck_port is None:
        yield
        return
    from dray.driver import liveness

    async with liveness.serving(args.healthcheck_port, lambda: runner.registered) as port:
        print(f"health probes are answered on port {port}", flush=True)
        yield


@asynccontextmanager
async def _webhook(args: argparse.Namespace) -> AsyncIterator[None]:
    if args.webhook_port is None:
        yield
        return
    from dray.driver.example import webhook

    async with webhook.serving(args.webhook_port) as configuration:
        if args.webhook_config is not None:
            args.webhook_config.write_text(configuration)
        else:
            print(f"---\n{configuration}---")
        yield


# dray driver test


def _add_test(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "test",
        help="find out what a driver does wrong",
        usage="dray driver test [options] example | SOCKET | -- COMMAND …",
        description="Plays the node agent and the API server for a driver in any language and reports what it does "
        "wrong. `example` tests the built-in one. COMMAND is started with an API server of the test's own, as often as "
        "the test needs; it finds its way by KUBECONFIG, NODE_NAME, KUBELET_DIR and CDI_DIR in its environment, or "
        "{kubeconfig}, {node}, {kubelet-dir} and {cdi-dir} in its arguments. SOCKET is the registration socket of a "
        "driver that runs already, for the API server of --kubeconfig and the node of --node; what needs restarts is "
        "left out then.",
    )
    parser.add_argument("target", nargs="+", help="example, a registration socket, or a command")
    parser.add_argument("--change", metavar="COMMAND", help="shell command that makes the driver's devices change")
    parser.add_argument("--kubeconfig", default="", help="with SOCKET: the API server that the driver uses")
    parser.add_argument("--node", default="", metavar="NAME", help="with SOCKET: the node that the driver runs on")
    parser.add_argument("--cdi-dir", type=Path, default=Path("/var/run/cdi"), metavar="DIR", help="with SOCKET")
    parser.add_argument(
        "--patience", type=float, default=1.0, metavar="FACTOR", help="wait longer (or shorter) for everything"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="form of the report")
    parser.set_defaults(run=run_test)


def run_test(args: argparse.Namespace) -> int:
    from dray.client.config import ConfigError

    set_up_logging(0)
    try:
        socket = Path(args.target[0]).absolute()
        running = len(args.target) == 1 and socket.is_socket()
        report = asyncio.run(_test_running(args, socket) if running else _test(args))
    except (ConfigError, OSError) as error:
        return fail("driver test", problem(error), 2)
    print(report.json() if args.output == "json" else report.text())
    return 0 if report.passed else 1


async def _test(args: argparse.Namespace) -> DriverReport:
    from dray.driverkit import Places, own_cluster, run

    with tempfile.TemporaryDirectory(prefix="dray-") as name:  # short, for the sake of sockets
        directory = Path(name)
        async with own_cluster(directory) as cluster:
            places = Places(cluster.kubeconfig, cluster.node, directory / "kubelet", directory / "kubelet" / "cdi")
            return await run(_subject(args, directory), cluster, places, _patience(args))


async def _test_running(args: argparse.Namespace, socket: Path) -> DriverReport:
    from dray.client.config import ConfigError, load
    from dray.client.http import Http
    from dray.driverkit import DriverTestCluster, Places, RegisteredDriver, run

    if not args.node:
        raise ConfigError("--node is required: which node does the driver run on?")
    async with Http(load(args.kubeconfig)) as client:
        cluster = DriverTestCluster(client, args.node, Path(args.kubeconfig))
        places = Places(cluster.kubeconfig, args.node, socket.parent.parent, args.cdi_dir)
        return await run(RegisteredDriver(socket), cluster, places, _patience(args), socket)


def _subject(args: argparse.Namespace, directory: Path) -> DriverUnderTest:
    from dray.driverkit import Command

    if args.target != ["example"]:
        return Command(args.target, args.change)
    file = directory / "devices"
    count = _EXAMPLE_DEVICES

    def change() -> None:
        file.write_text(_device_names(count - 1))

    file.write_text(_device_names(count))
    options = ("--node={node}", "--kubelet-dir={kubelet-dir}", "--cdi-dir={cdi-dir}", f"--devices-file={file}")
    return Command((*_DRAY, "driver", "example", "gpu", *options), change, "dray driver example gpu")


def _device_names(count: int) -> str:
    """From the highest down, so that leaving out the last number moves every device to another place."""
    return "\n".join(f"gpu-{number}" for number in reversed(range(count)))


def _patience(args: argparse.Namespace) -> Patience:
    from dray.driverkit import Patience

    usual = Patience()
    factor = args.patience
    return Patience(usual.start * factor, usual.call * factor, usual.repair * factor, usual.quiet * factor)
