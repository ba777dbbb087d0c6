"""What `dray up` and `dray apiserver` share: options, start, the words for a person, and a clean end."""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import resource
import shutil
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dray.cli import _banner, _clusters, _containers, _dashboard, _kubeconfig, _memory, fail, version
from dray.cli._component import on_signals

if TYPE_CHECKING:
    from dray.apiserver.assembly import Running, ServerSettings
    from dray.apiserver.security.certificates import Keys
    from dray.apiserver.wire.serving import ServingTls

# The collector walks everything that was made since its last pass; objects of the API are outside its view, so passes over
# everything can be rare. A pass over the youngest objects frees up to ten microseconds' worth for each that was left in a
# circle, as of pods that the scheduler waited for: at most 1,000 or 5,000 at once keep pauses at a few milliseconds.
_GC_THRESHOLDS = (1_000, 4, 30_000)
_OPEN_FILES = 65_536
# How long a thread beside the event loop may keep it waiting, each time that the loop reads or writes a connection.
_SWITCH_SECONDS = 0.0005
_PORT = 6443  # as Kubernetes has it
_STORES = "memory, sqlite (the default: a file in DIR), sqlite:PATH or etcd://HOST:PORT,HOST:PORT,…"


Work = Callable[[], Coroutine[Any, Any, None]]


class ServerPart(NamedTuple):
    """Something that runs beside the API server until it is cancelled."""

    name: str
    run: Work


Parts = Callable[["Running", argparse.Namespace], Sequence[ServerPart]]
Ready = Callable[["Running", "Keys", str, str], None]
"""Told the server, its keys, its address, and what it took over from an earlier start."""


class ServerStartError(Exception):
    """Why a server cannot start, in words for a person."""


def add_options(parser: argparse.ArgumentParser, *, gates_enable_apis: bool) -> None:
    """Add the options of a server. `gates_enable_apis`: a gate enables its kinds that have no stable version."""
    parser.set_defaults(gates_enable_apis=gates_enable_apis)
    _clusters.add_options(parser)
    parser.add_argument(
        "--merge-kubeconfig", action="store_true", help="also add a context to your own kubeconfig, and select it"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--port",
        type=int,
        help=f"port to listen on, 0 for any (the one that the cluster had, else {_PORT}, else any that is free)",
    )
    parser.add_argument("--store", default="sqlite", help=_STORES)
    parser.add_argument("--feature-gates", default="", metavar="A=true,…", help="see `dray gates`")
    unless = ", except those of kinds without a stable version whose feature gate is on" if gates_enable_apis else ""
    parser.add_argument(
        "--runtime-config",
        default="",
        metavar="G/V=true,…",
        help=f"enable or disable API versions: resource.k8s.io/v1beta1=true, api/ga, api/beta, api/alpha or api/all; the "
        f"most specific one counts (by default beta and alpha versions are off{unless})",
    )
    parser.add_argument("--disable-admission-plugins", default="", metavar="NAME,…", help="leave plugins out")
    for name, default, help_ in (
        ("per-minute", 10.0, "ResourcePoolStatusRequests that a user may create in a minute (%(default)g)"),
        ("burst", 20, "and at once (%(default)s)"),
        ("cap", None, "and that may exist in the cluster (no limit)"),
    ):
        kind = float if isinstance(default, float) else int
        parser.add_argument(f"--pool-status-{name}", type=kind, default=default, metavar="N", help=help_)
    parser.add_argument("--token-auth-file", type=Path, metavar="FILE", help="more users: token,user,uid,groups a line")
    parser.add_argument(
        "--keys-from",
        type=Path,
        metavar="DIR",
        help="directory of another API server of this cluster, whose authority, admin token and service account key are "
        "copied to --dir at the first start",
    )
    parser.add_argument(
        "--shutdown-delay",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds between a signal to end, from which on /readyz fails, and the end of watches and requests (%(default)g)",
    )
    parser.add_argument("--insecure", action="store_true", help="no TLS and no users; for tests on this machine only")


def serve(command: str, args: argparse.Namespace, parts: Parts | None = None) -> int:
    """Run until a signal; returns the exit status."""
    import uvloop

    from dray.store import StoreError

    _allow_connections()
    _memory.keep_large_apart()
    try:
        args.dir = _clusters.directory_of(args)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve_until_signal(args, parts))
    except (ServerStartError, StoreError, _clusters.ClusterError, _dashboard.DashboardKeyError) as error:
        return fail(command, error)  # one at the end says what could not be written any more


async def _serve_until_signal(args: argparse.Namespace, parts: Parts | None) -> int:
    stopping, started = on_signals(), asyncio.Event()

    def ready(running: Running, keys: Keys, url: str, took_over: str) -> None:
        started.set()
        _announce(args, running, keys, url, took_over)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        sys.setswitchinterval(_SWITCH_SECONDS)

    serving = asyncio.ensure_future(serve_until(stopping, args, parts, ready))
    signalled = asyncio.ensure_future(stopping.wait())
    giving_back = asyncio.ensure_future(_memory.give_back())
    await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
    if not started.is_set():  # a start may wait for a store that does not answer
        serving.cancel()
    signalled.cancel()
    giving_back.cancel()
    try:
        return await serving
    except asyncio.CancelledError:
        return 0


async def serve_until(stopping: asyncio.Event, args: argparse.Namespace, parts: Parts | None, ready: Ready) -> int:
    """Run a server, with parts beside it, until it is told to stop; `ready` is called once it answers."""
    _check_idle(args.dir)
    with _listen(args) as sock:
        return await _serve_on(sock, stopping, args, parts, ready)


async def _serve_on(
    sock: socket.socket, stopping: asyncio.Event, args: argparse.Namespace, parts: Parts | None, ready: Ready
) -> int:
    from dray.apiserver.wire.serving import HttpServer

    keys = _keys(args)
    tls = _tls(keys) if not args.insecure else None
    running = await _open(_settings(args, keys, sock))
    server = HttpServer(running.http, sock, tls)
    url = f"{'http' if args.insecure else 'https'}://{_address(sock)}"
    took_over = _banner.taken_over(running.api.storage, args)
    try:
        await server.start()
        tasks = [asyncio.create_task(part.run(), name=part.name) for part in (parts(running, args) if parts else ())]
        state = "" if args.store == "memory" else str(args.dir.resolve()) if args.store == "sqlite" else args.store
        with _clusters.ClusterDirectory(args.dir).recorded(url, _banner.runs(args), state):
            ready(running, keys, url, took_over)
            return await _until_stopped(_announced(stopping, running, args.shutdown_delay), tasks)
    finally:
        running.drain()
        await server.stop()
        await running.close()
        _take_leave(args.dir)


async def _announced(stopping: asyncio.Event, running: Running, delay: float) -> None:
    """Wait for a signal, then until load balancers had time to notice that the server is not ready any more."""
    await stopping.wait()
    running.announce_end()
    await asyncio.sleep(delay)


async def _until_stopped(stopped: Coroutine[Any, Any, None], tasks: list[asyncio.Task[None]]) -> int:
    """Wait for a signal or for a part that ends, then end the parts."""
    signalled = asyncio.create_task(stopped)
    done, _ = await asyncio.wait([signalled, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in (signalled, *tasks):
        task.cancel()
    await asyncio.gather(signalled, *tasks, return_exceptions=True)
    failed = [task for task in done if task is not signalled]
    for task in failed:
        reason = task.exception() if not task.cancelled() else None
        print(f"dray: {task.get_name()} ended: {reason or 'without a reason'}", file=sys.stderr)
    return 1 if failed else 0


def _allow_connections() -> None:
    """Every connection is an open file, of which a process may have 1,024 unless it asks for more."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(allowed, min(most, _OPEN_FILES)), most))


# Starting, with words for what can go wrong


def _check_idle(directory: Path) -> None:
    record = _clusters.ClusterDirectory(directory).record()
    if record is not None:
        raise ServerStartError(
            f"the cluster in {directory} runs already, process {record.pid} at {record.url}; see `dray down`"
        )


def _listen(args: argparse.Namespace) -> socket.socket:
    from dray.apiserver.wire.serving import listen

    if args.insecure and args.host not in ("127.0.0.1", "::1", "localhost"):
        raise ServerStartError(
            f"--insecure serves everybody who can connect; it listens on this machine only, not {args.host}"
        )
    if args.port is None:
        for port in (_kubeconfig.port(args.dir / "kubeconfig"), _PORT):
            with suppress(OSError):
                if port:
                    return listen(args.host, port)
    port = args.port or 0
    if not 0 <= port < 65536:
        raise ServerStartError(f"port {port}: expected a number from 0 to 65535")
    try:
        return listen(args.host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = f"port {port} on {args.host} is taken; stop what listens there, or choose another with --port"
        elif error.errno == errno.EACCES:
            text = f"port {port} needs privileges; choose one above 1023 with --port"
        else:
            text = f"cannot listen on {args.host}: {error.strerror or error}"
        raise ServerStartError(text) from error


def _address(sock: socket.socket) -> str:
    """Where this machine reaches the server, as HOST:PORT."""
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _keys(args: argparse.Namespace) -> Keys:
    from dray.apiserver.security.certificates import Keys

    try:
        return Keys.open(args.dir, () if args.host in ("0.0.0.0", "::") else (args.host,), shared=args.keys_from)
    except FileNotFoundError as error:
        if args.keys_from is None:
            raise
        raise ServerStartError(f"--keys-from: {error.filename} does not exist; start the other server first") from error
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EFBIG, errno.EISDIR):
            file = error.filename2 or error.filename  # a file that cannot be replaced is named second
            raise ServerStartError(f"{file} cannot be used: {error.strerror}; restore it") from error
        raise ServerStartError(
            f"directory {args.dir} cannot be used: {error.strerror or error}; choose another with --dir"
        ) from error
    except ValueError as error:
        raise ServerStartError(f"the keys in {args.dir} cannot be read: {error}") from error


def _tls(keys: Keys) -> ServingTls:
    """The server's certificate and key; told apart here from what the store says, and before it is opened."""
    from dray.apiserver.wire.serving import ServingTls

    tls = ServingTls(keys.certificate_file, keys.key_file, keys.authority_file)
    try:
        tls.check()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", "") or error.strerror if isinstance(error, OSError) else str(error)
        raise ServerStartError(
            f"{keys.certificate_file} and {keys.key_file.name} cannot be used: {reason}; delete both, and a new pair is made"
        ) from error
    return tls


def _settings(args: argparse.Namespace, keys: Keys, sock: socket.socket) -> ServerSettings:
    from dray.api.gates import FeatureGates
    from dray.apiserver.admission.pool_status import RequestLimits
    from dray.apiserver.assembly import ServerSettings
    from dray.apiserver.served import parse_runtime_config

    try:
        gates = FeatureGates.parse(args.feature_gates)
        runtime_config = parse_runtime_config(args.runtime_config)
        limits = RequestLimits(args.pool_status_per_minute, args.pool_status_burst, args.pool_status_cap)
    except ValueError as error:
        raise ServerStartError(str(error)) from error
    return ServerSettings(
        store=f"sqlite:{args.dir / 'state.db'}" if args.store == "sqlite" else args.store,
        keys=keys,
        gates=gates,
        runtime_config=runtime_config,
        gates_enable_apis=args.gates_enable_apis,
        disabled_plugins=tuple(filter(None, args.disable_admission_plugins.split(","))),
        authenticate=not args.insecure,
        token_file=args.token_auth_file,
        pool_status=limits,
        address=_address(sock),
    )


async def _open(settings: ServerSettings) -> Running:
    from dray.apiserver.assembly import Running
    from dray.store import StoreError

    try:
        return await Running.open(settings)
    except (StoreError, ValueError) as error:
        raise ServerStartError(str(error)) from error
    except OSError as error:
        raise ServerStartError(f"{error.filename or settings.store}: {error.strerror or error}") from error


# What a person sees


def _announce(args: argparse.Namespace, running: Running, keys: Keys, url: str, took_over: str) -> None:
    file = (args.dir / "kubeconfig").resolve()
    added = _kubeconfig.entries(url, None if args.insecure else keys)
    try:
        _kubeconfig.write(file, added, select=False)
        if args.merge_kubeconfig:
            name = context_of(args.name)
            own = _kubeconfig.entries(url, None if args.insecure else keys, name, name)
            _kubeconfig.write(_kubeconfig.of_user(), own, select=True)
    except ValueError as error:
        raise ServerStartError(str(error)) from error
    print(f"dray {version()} at {url}")
    lines = [*_banner.runs(args), took_over, _banner.off(running.gates)]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(*_banner.shown([line for line in lines if line], width), sep="\n")
    if args.merge_kubeconfig:
        print(f"  context {context_of(args.name)} in {_kubeconfig.of_user()}")
    if sign_in := _dashboard.address(running, url):
        print(f"  dashboard {sign_in}")
    print("next:")
    print(*(f"  {step}" for step in _banner.next_steps(file, bool(getattr(args, "nodes", 0)))), sep="\n")
    print("ready", flush=True)


def _take_leave(directory: Path) -> None:
    """Say what goes on after the end, since nothing else would."""
    if left := _containers.left(directory):
        print(left, file=sys.stderr)


def context_of(name: str) -> str:
    """How the context of a cluster is called in the user's own kubeconfig."""
    return f"dray-{name}" if name else "dray"
