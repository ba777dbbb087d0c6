"""What `dray up` and `dray apiserver` share: options, start, the words for a person, and a clean end."""

from __future__ import annotations

import argparse
import asyncio
import base64
import errno
import gc
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from dray.apiserver.assembly import Running, Settings
    from dray.apiserver.certificates import Keys

# The collector walks everything that was made since its last pass; objects of the API are outside its view, so passes
# can be rare. The values keep pauses below a few milliseconds at thousands of writes a second.
_GC_THRESHOLDS = (100_000, 20, 50)
_STORES = "memory, sqlite (the default: a file in DIR), sqlite:PATH or etcd://HOST:PORT,HOST:PORT,…"


class Part(Protocol):
    """Something that runs beside the API server until it is cancelled."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


Parts = Callable[["Running", argparse.Namespace], Sequence[Part]]


class StartError(Exception):
    """Why a server cannot start, in words for a person."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", default=".dray", metavar="DIR", type=Path, help="keys, kubeconfig, database (%(default)s)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", default=6443, type=int, help="port to listen on, 0 for any (%(default)s)")
    parser.add_argument("--store", default="sqlite", help=_STORES)
    parser.add_argument("--feature-gates", default="", metavar="A=true,…", help="see `dray gates`")
    parser.add_argument("--runtime-config", default="", metavar="G/V=false,…", help="turn API versions off or on")
    parser.add_argument("--disable-admission-plugins", default="", metavar="NAME,…", help="leave plugins out")
    for name, default, help_ in (
        ("per-minute", 10.0, "ResourcePoolStatusRequests that a user may create in a minute (%(default)g)"),
        ("burst", 20, "and at once (%(default)s)"),
        ("cap", None, "and that may exist in the cluster (no limit)"),
    ):
        kind = float if isinstance(default, float) else int
        parser.add_argument(f"--pool-status-{name}", type=kind, default=default, metavar="N", help=help_)
    parser.add_argument("--token-auth-file", type=Path, metavar="FILE", help="more users: token,user,uid,groups a line")
    parser.add_argument("--insecure", action="store_true", help="no TLS and no users; for tests on this machine only")


def serve(prog: str, args: argparse.Namespace, parts: Parts | None = None) -> int:
    """Run until a signal; returns the exit status."""
    import uvloop

    from dray.store import StoreError

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(args, parts))
    except (StartError, StoreError) as error:  # one at the end says what could not be written any more
        print(f"{prog}: {error}", file=sys.stderr)
        return 1


async def _serve(args: argparse.Namespace, parts: Parts | None) -> int:
    stopping = _on_signals()
    sock = _listen(args)
    keys = _keys(args)
    running = await _open(_settings(args, keys, sock))
    from dray.apiserver.serving import HttpServer, Tls

    tls = Tls(keys.certificate_file, keys.key_file, keys.authority_file) if not args.insecure else None
    server = HttpServer(running.http, sock, tls)
    try:
        await server.start()
        tasks = [asyncio.create_task(part.run(), name=part.name) for part in (parts(running, args) if parts else ())]
        _announce(args, keys, sock)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        return await _until_stopped(stopping, tasks)
    finally:
        running.drain()
        await server.stop()
        await running.close()


async def _until_stopped(stopping: asyncio.Event, tasks: list[asyncio.Task[None]]) -> int:
    """Wait for a signal or for a part that ends, then end the parts."""
    signalled = asyncio.create_task(stopping.wait())
    done, _ = await asyncio.wait([signalled, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in (signalled, *tasks):
        task.cancel()
    await asyncio.gather(signalled, *tasks, return_exceptions=True)
    failed = [task for task in done if task is not signalled]
    for task in failed:
        reason = task.exception() if not task.cancelled() else None
        print(f"dray: {task.get_name()} ended: {reason or 'without a reason'}", file=sys.stderr)
    return 1 if failed else 0


def _on_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


# Starting, with words for what can go wrong


def _listen(args: argparse.Namespace) -> socket.socket:
    from dray.apiserver.serving import listen

    if args.insecure and args.host not in ("127.0.0.1", "::1", "localhost"):
        raise StartError(
            f"--insecure serves everybody who can connect; it listens on this machine only, not {args.host}"
        )
    if not 0 <= args.port < 65536:
        raise StartError(f"port {args.port}: expected a number from 0 to 65535")
    try:
        return listen(args.host, args.port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = f"port {args.port} on {args.host} is taken; stop what listens there, or choose another with --port"
        elif error.errno == errno.EACCES:
            text = f"port {args.port} needs privileges; choose one above 1023 with --port"
        else:
            text = f"cannot listen on {args.host}: {error.strerror or error}"
        raise StartError(text) from error


def _address(sock: socket.socket) -> str:
    """Where this machine reaches the server, as HOST:PORT."""
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _keys(args: argparse.Namespace) -> Keys:
    from dray.apiserver.certificates import Keys

    try:
        return Keys.open(args.dir, () if args.host in ("0.0.0.0", "::") else (args.host,))
    except OSError as error:
        raise StartError(
            f"directory {args.dir} cannot be used: {error.strerror or error}; choose another with --dir"
        ) from error
    except ValueError as error:
        raise StartError(f"the keys in {args.dir} cannot be read: {error}") from error


def _settings(args: argparse.Namespace, keys: Keys, sock: socket.socket) -> Settings:
    from dray.api.gates import FeatureGates
    from dray.apiserver.admission.pool_status import RequestLimits
    from dray.apiserver.assembly import Settings
    from dray.apiserver.served import parse_runtime_config

    try:
        gates = FeatureGates.parse(args.feature_gates)
        runtime_config = parse_runtime_config(args.runtime_config)
        limits = RequestLimits(args.pool_status_per_minute, args.pool_status_burst, args.pool_status_cap)
    except ValueError as error:
        raise StartError(str(error)) from error
    return Settings(
        store=f"sqlite:{args.dir / 'state.db'}" if args.store == "sqlite" else args.store,
        keys=keys,
        gates=gates,
        runtime_config=runtime_config,
        disabled_plugins=tuple(filter(None, args.disable_admission_plugins.split(","))),
        authenticate=not args.insecure,
        token_file=args.token_auth_file,
        pool_status=limits,
        address=_address(sock),
    )


async def _open(settings: Settings) -> Running:
    from dray.apiserver.assembly import Running
    from dray.store import StoreError

    try:
        return await Running.open(settings)
    except (StoreError, ValueError) as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(f"{error.filename or settings.store}: {error.strerror or error}") from error


# What a person sees


def _announce(args: argparse.Namespace, keys: Keys, sock: socket.socket) -> None:
    url = f"{'http' if args.insecure else 'https'}://{_address(sock)}"
    file = args.dir / "kubeconfig"
    _write_kubeconfig(file, url, keys, args.insecure)
    print(f"API server at {url}, state in {'memory' if args.store == 'memory' else args.store}")
    print(f"  export KUBECONFIG={file.resolve()}")
    print("  kubectl api-resources")
    print("ready", flush=True)


def _write_kubeconfig(file: Path, url: str, keys: Keys, insecure: bool) -> None:
    from dray.apiserver.certificates import write_private

    cluster: dict[str, Any] = {"server": url}
    user: dict[str, Any] = {}
    if not insecure:
        cluster["certificate-authority-data"] = base64.b64encode(keys.authority).decode()
        user["token"] = keys.admin_token
    write_private(file, kubeconfig(cluster, user).encode())


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any]) -> str:
    """The file that tells kubectl where the cluster is and who asks, in the plain form that scripts read too."""
    entries = "".join(f"    {name}: {value}\n" for name, value in cluster.items())
    secrets = "".join(f"    {name}: {value}\n" for name, value in user.items())
    return (
        "apiVersion: v1\nkind: Config\ncurrent-context: dray\n"
        f"clusters:\n- name: dray\n  cluster:\n{entries}"
        f"users:\n- name: admin\n  user:{chr(10) + secrets if secrets else ' {}' + chr(10)}"
        "contexts:\n- name: dray\n  context:\n    cluster: dray\n    user: admin\n"
    )
