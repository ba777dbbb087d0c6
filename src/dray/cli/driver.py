"""`dray driver example`: run an example driver; `dray driver test`: run conformance tests on a driver."""

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
from dray.cli import fail
from dray.cli._component import add_verbosity, set_up_logging

if TYPE_CHECKING:
    from dray.client import Client
    from dray.driver import Driver, Runner
    from dray.driverkit import DriverReport, DriverUnderTest, Patience

KINDS = ("cpu", "gpu", "mig", "network", "nic")
_DRAY = (sys.executable, "-c", "import sys; from dray.cli import main; sys.exit(main())")
_EXAMPLE_DEVICES = 130  # more than fit into one slice, so that pools with several slices are tested too


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("driver", help="run an example driver, or a conformance test for any driver")
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
    parser.add_argument("kind", nargs="?", choices=KINDS, default="gpu", help="which driver (default: %(default)s)")
    parser.add_argument(
        "--node", default="", metavar="NAME", help="name of the node whose node agent the driver serves"
    )
    parser.add_argument(
        "--kubeconfig", default="", help="kubeconfig file of the API server (default: $KUBECONFIG, else ~/.kube/config)"
    )
    parser.add_argument("--context", default="", help="context of the kubeconfig file (default: its current context)")
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="root directory of a `dray node`; short for --kubelet-dir DIR --cdi-dir DIR/cdi",
    )
    parser.add_argument(
        "--kubelet-dir",
        type=Path,
        default=Path("/var/lib/kubelet"),
        metavar="DIR",
        help="directory of the node agent's plugin sockets (default: %(default)s)",
    )
    parser.add_argument(
        "--cdi-dir",
        type=Path,
        default=Path("/var/run/cdi"),
        metavar="DIR",
        help="directory to write CDI specs to (default: %(default)s)",
    )
    parser.add_argument("--devices", type=int, default=8, metavar="N", help="number of devices (default: %(default)s)")
    parser.add_argument(
        "--devices-file",
        type=Path,
        metavar="FILE",
        help="file with the names of the GPUs, one per line; edit it while the driver runs to change them",
    )
    parser.add_argument(
        "--unhealthy-file",
        type=Path,
        metavar="FILE",
        help="file with the names of unhealthy GPUs, one per line; may be edited while the driver runs",
    )
    parser.add_argument(
        "--taint-unhealthy",
        choices=("None", "NoSchedule", "NoExecute"),
        default="",
        metavar="EFFECT",
        help="taint unhealthy devices with this effect: None, NoSchedule or NoExecute (default: no taint)",
    )
    parser.add_argument(
        "--instance",
        default="",
        metavar="UID",
        help="suffix of the socket names, so that two instances can run during a rolling update",
    )
    parser.add_argument(
        "--healthcheck-port",
        type=int,
        metavar="PORT",
        help="port for gRPC health probes; 0: any free port (default: none)",
    )
    parser.add_argument("--withdraw", action="store_true", help="delete the published ResourceSlices at exit")
    parser.add_argument(
        "--webhook-port",
        type=int,
        metavar="PORT",
        help="port of the validating webhook; 0: any free port (default: no webhook)",
    )
    parser.add_argument(
        "--webhook-config",
        type=Path,
        metavar="FILE",
        help="file to write the ValidatingWebhookConfiguration to, for `kubectl apply`",
    )
    parser.add_argument(
        "--manifests",
        action="store_true",
        help="print DeviceClass, ServiceAccount and ClusterRole for `kubectl apply`, and exit",
    )
    add_verbosity(parser)
    parser.set_defaults(run=run_example)


def run_example(args: argparse.Namespace) -> int:
    """Run an example driver, or print its manifests. Returns the exit status.

    The status is 0, 1 if the driver cannot run, or 2 for unusable input.
    """
    if args.manifests:
        print((files("dray.driver.example") / "manifests" / f"{args.kind}.yaml").read_text(), end="")
        return 0
    from dray.client.config import ConfigError
    from dray.driver.sockets import SocketError

    set_up_logging(args.v, args.log_format)
    if args.root is not None:
        args.kubelet_dir, args.cdi_dir = args.root, args.root / "cdi"
    try:
        asyncio.run(_example(args))
    except (ConfigError, SocketError, OSError) as error:
        return fail("driver example", error)
    return 0


async def _example(args: argparse.Namespace) -> None:
    """Run an example driver until a signal. Raises ConfigError, SocketError and OSError."""
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
    """Return the example driver that the options select."""
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
    """Serve gRPC health probes within the context, if requested."""
    if args.healthcheck_port is None:
        yield
        return
    from dray.driver import liveness

    async with liveness.serving(args.healthcheck_port, lambda: runner.registered) as port:
        print(f"health probes are answered on port {port}", flush=True)
        yield


@asynccontextmanager
async def _webhook(args: argparse.Namespace) -> AsyncIterator[None]:
    """Serve the validating webhook within the context, if requested."""
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
        help="check a driver in any language",
        usage="dray driver test [options] example | SOCKET | -- COMMAND …",
        description="Check a DRA driver in any language: the test plays node agent and API server and reports what the driver "
        "does wrong. `example` checks the built-in driver. COMMAND starts the driver; the test runs it with an API server "
        "of its own and restarts it several times. The driver gets KUBECONFIG, NODE_NAME, KUBELET_DIR and CDI_DIR in its "
        "environment, and {kubeconfig}, {node}, {kubelet-dir} and {cdi-dir} are replaced in its arguments. SOCKET is the "
        "registration socket of a driver that is already running with the API server of --kubeconfig on the node --node; "
        "checks that need restarts are then skipped.",
    )
    parser.add_argument("target", nargs="+", help="`example`, a registration socket, or a command after --")
    parser.add_argument("--change", metavar="COMMAND", help="shell command that changes the driver's devices")
    parser.add_argument(
        "--kubeconfig", default="", help="with SOCKET: kubeconfig file of the API server that the driver uses"
    )
    parser.add_argument(
        "--node", default="", metavar="NAME", help="with SOCKET: name of the node that the driver runs on"
    )
    parser.add_argument(
        "--cdi-dir",
        type=Path,
        default=Path("/var/run/cdi"),
        metavar="DIR",
        help="with SOCKET: directory of the driver's CDI specs (default: %(default)s)",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="multiply every time limit by FACTOR (default: %(default)g)",
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="format of the report (default: %(default)s)"
    )
    parser.set_defaults(run=run_test)


def run_test(args: argparse.Namespace) -> int:
    """Run the conformance tests for a driver and print the report. Returns the exit status.

    The status is 0 if the tests are passed, 1 if not, 2 if they cannot run.
    """
    from dray.client.config import ConfigError

    set_up_logging(0)
    try:
        socket = Path(args.target[0]).absolute()
        running = len(args.target) == 1 and socket.is_socket()
        report = asyncio.run(_test_running(args, socket) if running else _test(args))
    except (ConfigError, OSError) as error:
        return fail("driver test", error, 2)
    print(report.json() if args.output == "json" else report.text())
    return 0 if report.passed else 1


async def _test(args: argparse.Namespace) -> DriverReport:
    """Test a driver that the test starts, with its own API server. Returns the report."""
    from dray.driverkit import Places, own_cluster, run

    with tempfile.TemporaryDirectory(prefix="dray-") as name:  # short, because paths of sockets are limited
        directory = Path(name)
        async with own_cluster(directory) as cluster:
            places = Places(cluster.kubeconfig, cluster.node, directory / "kubelet", directory / "kubelet" / "cdi")
            return await run(_subject(args, directory), cluster, places, _patience(args))


async def _test_running(args: argparse.Namespace, socket: Path) -> DriverReport:
    """Test a driver that is already running. Returns the report.

    `socket` is the driver's registration socket. Raises ConfigError without --node.
    """
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
    """Return the command to test, with a way to change its devices."""
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
    """Return device names in descending order, so that removing the last number moves every device."""
    return "\n".join(f"gpu-{number}" for number in reversed(range(count)))


def _patience(args: argparse.Namespace) -> Patience:
    """Return the time limits, multiplied by --patience."""
    from dray.driverkit import Patience

    usual = Patience()
    factor = args.patience
    return Patience(usual.start * factor, usual.call * factor, usual.repair * factor, usual.quiet * factor)
