"""Assemble a server: store, guards, registry, HTTP, and the objects that every cluster has.

The only module that knows all others; it makes no decisions itself. `Running.open` returns a server for calls in the
same process; its `http` is the application that serves a socket.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dray.api.conversion import ObjectConversion
from dray.api.gates import FeatureGates
from dray.apiserver.admission.pool_status import RequestLimits
from dray.apiserver.bootstrap import bootstrap
from dray.apiserver.core import ApiServer
from dray.apiserver.custom.conversions import Conversions
from dray.apiserver.custom.definitions import Definitions
from dray.apiserver.custom.establishing import Establishing
from dray.apiserver.limits import Limits
from dray.apiserver.read.measured import Measured
from dray.apiserver.read.storage import Storage, decode
from dray.apiserver.security.certificates import Keys
from dray.apiserver.security.guards import assemble
from dray.apiserver.served import served_versions
from dray.apiserver.steps import RequestResolver
from dray.apiserver.store_health import StoreHealth
from dray.apiserver.streaming.serving import PodStreams
from dray.apiserver.watchdog import Watchdog
from dray.apiserver.wire.documents import Documents
from dray.apiserver.wire.http import HttpApi
from dray.apiserver.wire.logs import NodeLogs
from dray.apiserver.wire.metrics import Metrics
from dray.apiserver.wire.nodeproxy import NodeProxy
from dray.apiserver.wire.paths import Routes
from dray.background import Background
from dray.store import Cache, Log, open_log


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server."""

    keys: Keys | None = None  # without keys there are no tokens
    store: str = "memory"
    gates: FeatureGates = field(default_factory=FeatureGates)
    runtime_config: dict[str, bool] = field(default_factory=dict)
    gates_enable_apis: bool = True  # a gate also enables its kinds that have no stable version, as in `dray up`
    disabled_plugins: tuple[str, ...] = ()
    authenticate: bool = True  # if False, every HTTP client is the administrator
    limits: Limits = field(default_factory=Limits)
    token_file: Path | None = None
    pool_status: RequestLimits = field(default_factory=RequestLimits)
    address: str = ""  # HOST:PORT for clients, in discovery and in the Service kubernetes


class Running:
    """A running server and its store."""

    def __init__(self, log: Log, cache: Cache, settings: ServerSettings) -> None:
        self._log = log
        self._cache = cache
        self.gates = settings.gates
        self.address = settings.address
        self.root_ca = settings.keys.authority.decode() if settings.keys else ""
        storage = Storage(cache)
        self.definitions = Definitions(storage)
        conversions = Conversions(storage, settings.limits)
        self.background = Background()
        resolver = RequestResolver(self.background, {ObjectConversion: conversions.convert})
        guards = assemble(
            storage,
            settings.keys,
            resolver=resolver,
            find_kind=self.definitions.of_kind,
            gates=settings.gates,
            token_file=settings.token_file,
            disabled_plugins=settings.disabled_plugins,
            pool_status=settings.pool_status,
        )
        self._admission = guards.admission
        self.api = ApiServer(
            storage,
            gates=settings.gates,
            authorizer=guards.authorizer,
            admission=guards.admission,
            reviews=guards.reviews,
            issue_token=guards.tokens.request if guards.tokens else None,
            conversions=conversions,
            resolver=resolver,
        )
        self.establishing = Establishing(self.api, self.definitions)
        self._logs = NodeLogs(storage, settings.keys if settings.authenticate else None, settings.limits)
        self.api.log_source = self._logs
        self.served = served_versions(
            settings.gates, settings.runtime_config, gates_enable_apis=settings.gates_enable_apis
        )
        self._watchdog = Watchdog()
        self._health = StoreHealth(cache, settings.limits.ready_seconds)
        metrics = Metrics(cache, self._watchdog, self._health, settings.gates)
        self._documents = Documents(
            self.served, self.definitions, metrics, self._health, guards.authorizer, settings.address
        )
        self.http = HttpApi(
            self.api,
            Routes(
                ((resource, version) for resource, versions in self.served.items() for version in versions),
                self.definitions,
            ),
            self._documents,
            metrics,
            guards.authenticator if settings.authenticate else None,
            settings.limits,
        )
        self.http.nodes = NodeProxy(self._logs)
        self.api.measured = Measured(storage, self.http.nodes.text)
        self.http.streams = PodStreams(self._logs.dial, self._logs.container)

    @classmethod
    async def open(cls, settings: ServerSettings) -> Running:
        """Open the store, create missing system objects and start the server. Returns the running server.

        If this fails, the store is closed again.
        """
        log = await open_log(settings.store)
        running: Running | None = None
        try:
            cache = await Cache.open(log, decode, cold=("events/",))  # Events live for an hour and are seldom read
            running = cls(log, cache, settings)
            await bootstrap(running.api.storage, running.root_ca, settings.address)
            running.definitions.start()
            running.establishing.start()
            running._health.start()
        except BaseException:
            if running is not None:
                running._watchdog.stop()
            await log.close()
            raise
        return running

    def announce_end(self) -> None:
        """Make /readyz fail from now on, so that load balancers send requests elsewhere. Requests are still answered."""
        self._documents.is_stopping = True

    def drain(self) -> None:
        """End all watches and logs, so that their connections close. Other requests in progress are still answered."""
        self.api.end_watches()
        self._logs.end()

    async def close(self) -> None:
        """Stop all parts of the server and close the store."""
        self._watchdog.stop()
        await self._health.close()
        await self.establishing.close()
        await self.definitions.close()
        await self._logs.aclose()
        await self.api.close()
        await self._admission.aclose()
        await self._cache.close()
        await self._log.close()
