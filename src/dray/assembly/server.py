"""Run an API server, with the components of a cluster beside it, from start to clean shutdown."""

from __future__ import annotations

import asyncio
import errno
import gc
import resource
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.assembly import clusters, kubeconfig, memory, remembered
from dray.assembly.component import on_signals
from dray.assembly.description import runs
from dray.assembly.options import DEFAULT_PORT, ClusterOptions, ServerOptions, ServerStartError

if TYPE_CHECKING:
    from dray.apiserver.assembly import Running, ServerSettings
    from dray.apiserver.read.storage import Storage
    from dray.apiserver.security.certificates import Keys
    from dray.apiserver.wire.serving import ServingTls
    from dray.assembly.parts import ClusterPlan

# The collector visits all objects created since its last pass; API objects are not tracked by it, so full passes can
# be rare. A pass over the youngest objects takes up to ten microseconds for each object freed from a reference cycle,
# for example pods that the scheduler waited for: at most 1,000 or 5,000 at once keep pauses at a few milliseconds.
_GC_THRESHOLDS = (1_000, 4, 30_000)
_OPEN_FILES = 65_536
# Maximum time that another thread may delay the event loop, each time the loop reads or writes a connection.
_SWITCH_SECONDS = 0.0005


@dataclass(frozen=True)
class StartedServer:
    """A server that accepts requests: its URL, and the state of an earlier start.

    `found` counts stored objects by plural name; `removed` are nodes that this start does not run.
    """

    options: ServerOptions
    running: Running
    keys: Keys
    url: str
    found: dict[str, int]
    removed: list[str]

    @property
    def kubeconfig(self) -> Path:
        """Path of the cluster's kubeconfig."""
        return (self.options.dir / "kubeconfig").resolve()

    def merge(self, name: str) -> Path:
        """Add a context of this name to the user's own kubeconfig and select it. Returns the file.

        Raises ServerStartError if the existing file cannot be completed.
        """
        own = kubeconfig.of_user()
        try:
            kubeconfig.write(own, self._entries(name, name), select=True)
        except ValueError as error:
            raise ServerStartError(str(error)) from error
        return own

    def write_kubeconfig(self) -> None:
        """Write the cluster's kubeconfig. Raises ServerStartError.

        ServerStartError is raised if the existing file cannot be completed.
        """
        try:
            kubeconfig.write(self.kubeconfig, self._entries(), select=False)
        except ValueError as error:
            raise ServerStartError(str(error)) from error

    def _entries(self, *names: str) -> dict[str, Any]:
        return kubeconfig.entries(self.url, None if self.options.insecure else self.keys, *names)


OnStarted = Callable[[StartedServer], None]


def serve(options: ServerOptions, plan: ClusterPlan | None, ready: OnStarted) -> int:
    """Run until a signal. Returns the exit status. Raises ServerStartError and StoreError.

    A StoreError at the end describes writes that were lost. The status is 0 after a signal, 1 if a component ended by
    itself.
    """
    import uvloop

    _allow_connections()
    memory.keep_large_apart()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve_until_signal(options, plan, ready))


async def _serve_until_signal(options: ServerOptions, plan: ClusterPlan | None, ready: OnStarted) -> int:
    """Run a server, with the components of a plan, until SIGINT or SIGTERM. Returns the exit status.

    The status is 0 after a signal, 1 if a component ended by itself.
    """
    stopping, started = on_signals(), asyncio.Event()

    def answers(server: StartedServer) -> None:
        started.set()
        ready(server)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        sys.setswitchinterval(_SWITCH_SECONDS)

    serving = asyncio.ensure_future(serve_until(stopping, options, plan, answers))
    signalled = asyncio.ensure_future(stopping.wait())
    giving_back = asyncio.ensure_future(memory.give_back())
    await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
    if not started.is_set():  # the start may be waiting for a store that does not answer
        serving.cancel()
    signalled.cancel()
    giving_back.cancel()
    try:
        return await serving
    except asyncio.CancelledError:
        return 0


async def serve_until(
    stopping: asyncio.Event, options: ServerOptions, plan: ClusterPlan | None, ready: OnStarted
) -> int:
    """Run a server, with the components of a plan, until `stopping` is set. Returns the exit status.

    `ready` is called once the server accepts requests. The status is 1 if a component ended by itself, else 0.
    """
    _check_idle(options.dir)
    with _listen(options) as sock:
        return await _serve_on(sock, stopping, options, plan, ready)


async def _serve_on(
    sock: socket.socket, stopping: asyncio.Event, options: ServerOptions, plan: ClusterPlan | None, ready: OnStarted
) -> int:
    """Run a server on a socket until `stopping` is set. Returns the exit status."""
    from dray.apiserver.wire.serving import HttpServer
    from dray.assembly.certificate import keep_certificate
    from dray.assembly.parts import leftovers, parts

    keys = _keys(options)
    tls = _tls(keys) if not options.insecure else None
    running = await _open(_settings(options, keys, sock))
    server = HttpServer(running.http, sock, tls)
    url = f"{'http' if options.insecure else 'https'}://{_address(sock)}"
    removed = leftovers(running.api.storage, plan) if plan else []
    started = StartedServer(options, running, keys, url, _found(running.api.storage), removed)
    try:
        await server.start()
        beside = parts(running, plan, removed) if plan else ()
        tasks = [asyncio.create_task(part.run(), name=part.name) for part in beside]
        if tls is not None:
            tasks.append(asyncio.create_task(keep_certificate(keys, server), name="certificate"))
        with clusters.ClusterDirectory(options.dir).recorded(url, runs(options), _state(options)):
            started.write_kubeconfig()
            if isinstance(options, ClusterOptions):
                remembered.write(options)
            ready(started)
            return await _until_stopped(_announced(stopping, running, options.shutdown_delay), tasks)
    finally:
        running.drain()
        await server.stop()
        await running.close()


def _state(options: ServerOptions) -> str:
    """Return where the state of a cluster is stored; "" for memory."""
    return {"memory": "", "sqlite": str(options.dir.resolve())}.get(options.store, options.store)


def _found(storage: Storage) -> dict[str, int]:
    """Return the number of stored objects from an earlier start, by plural name."""
    from dray.api.resources import BY_TYPE
    from dray.api.types.core import Node, Pod
    from dray.api.types.resource import ResourceClaim

    resources = (BY_TYPE[type_] for type_ in (Node, Pod, ResourceClaim))
    counts = {resource.plural: sum(1 for _ in storage.list(resource)) for resource in resources}
    return {plural: count for plural, count in counts.items() if count}


async def _announced(stopping: asyncio.Event, running: Running, delay: float) -> None:
    """Wait for the stop event, report not ready, then wait until load balancers have noticed.

    `delay` is in seconds.
    """
    await stopping.wait()
    running.announce_end()
    await asyncio.sleep(delay)


async def _until_stopped(stopped: Coroutine[Any, Any, None], tasks: list[asyncio.Task[None]]) -> int:
    """Wait until told to stop or a component ends, then stop all components. Returns the exit status.

    The status is 1 if a component ended by itself, else 0.
    """
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
    """Raise the limit on open files, because each connection is one and the default is 1,024."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(allowed, min(most, _OPEN_FILES)), most))


# Starting, with error messages for users


def _check_idle(directory: Path) -> None:
    """Raise ServerStartError if the cluster is already running."""
    cluster = clusters.ClusterDirectory(directory)
    if (record := cluster.record()) is not None:
        raise ServerStartError(
            f"the cluster in {directory} is already running (PID {record.pid}, {record.url}); "
            f"stop it with `dray down{cluster.option}`"
        )


def _listen(options: ServerOptions) -> socket.socket:
    """Return a listening socket on the chosen port, the previous one, 6443 or any.

    Raises ServerStartError if the address cannot be used, or if --insecure would serve other machines.
    """
    from dray.apiserver.wire.serving import listen

    if options.insecure and options.host not in ("127.0.0.1", "::1", "localhost"):
        raise ServerStartError(
            f"--insecure serves everybody who can connect; it listens on this machine only, not {options.host}"
        )
    if options.port is None:
        for port in (kubeconfig.port(options.dir / "kubeconfig"), DEFAULT_PORT):
            with suppress(OSError):
                if port:
                    return listen(options.host, port)
    return listen_at(options.host, options.port or 0)


def listen_at(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises ServerStartError, which says what to do instead."""
    from dray.apiserver.wire.serving import listen

    if not 0 <= port < 65536:
        raise ServerStartError(f"port {port}: expected a number from 0 to 65535")
    try:
        return listen(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = f"port {port} on {host} is taken; stop what listens there, or choose another with --port"
        elif error.errno == errno.EACCES:
            text = f"port {port} needs privileges; choose one above 1023 with --port"
        else:
            text = f"cannot listen on {host}: {error.strerror or error}"
        raise ServerStartError(text) from error


def _address(sock: socket.socket) -> str:
    """Return HOST:PORT by which this machine reaches the server."""
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _keys(options: ServerOptions) -> Keys:
    """Return the keys in the cluster's directory.

    Raises ServerStartError if a file cannot be used or the directory of --keys-from lacks one.
    """
    from dray.apiserver.security.certificates import Keys

    try:
        return Keys.open(
            options.dir, () if options.host in ("0.0.0.0", "::") else (options.host,), shared=options.keys_from
        )
    except FileNotFoundError as error:
        if options.keys_from is None:
            raise
        raise ServerStartError(f"--keys-from: {error.filename} does not exist; start the other server first") from error
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EFBIG, errno.EISDIR):
            file = error.filename2 or error.filename  # if a file cannot be replaced, the second name is the target
            raise ServerStartError(f"{file} cannot be used: {error.strerror}; restore it") from error
        raise ServerStartError(
            f"directory {options.dir} cannot be used: {error.strerror or error}; choose another with --dir"
        ) from error
    except ValueError as error:
        raise ServerStartError(f"the keys in {options.dir} cannot be read: {error}") from error


def _tls(keys: Keys) -> ServingTls:
    """Return the server's TLS files, checked before the store is opened.

    Raises ServerStartError if the certificate or its key cannot be used.
    """
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


def _settings(options: ServerOptions, keys: Keys, sock: socket.socket) -> ServerSettings:
    """Return the settings of the server. Raises ServerStartError."""
    from dray.api.gates import FeatureGates
    from dray.apiserver.admission.pool_status import RequestLimits
    from dray.apiserver.assembly import ServerSettings
    from dray.apiserver.served import parse_runtime_config

    try:
        gates = FeatureGates.parse(options.feature_gates)
        runtime_config = parse_runtime_config(options.runtime_config)
        limits = RequestLimits(options.pool_status_per_minute, options.pool_status_burst, options.pool_status_cap)
    except ValueError as error:
        raise ServerStartError(str(error)) from error
    return ServerSettings(
        store=f"sqlite:{options.dir / 'state.db'}" if options.store == "sqlite" else options.store,
        keys=keys,
        gates=gates,
        runtime_config=runtime_config,
        gates_enable_apis=options.gates_enable_apis,
        disabled_plugins=tuple(filter(None, options.disable_admission_plugins.split(","))),
        authenticate=not options.insecure,
        token_file=options.token_auth_file,
        pool_status=limits,
        address=_address(sock),
    )


async def _open(settings: ServerSettings) -> Running:
    """Return the opened server.

    Raises ServerStartError if the store cannot be opened.
    """
    from dray.apiserver.assembly import Running
    from dray.store import StoreError

    try:
        return await Running.open(settings)
    except (StoreError, ValueError) as error:
        raise ServerStartError(str(error)) from error
    except OSError as error:
        raise ServerStartError(f"{error.filename or settings.store}: {error.strerror or error}") from error
