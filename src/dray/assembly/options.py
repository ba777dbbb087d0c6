"""Options of a server and of a whole cluster, for `dray apiserver`, `dray up` and `dray.testing`."""

from __future__ import annotations

from pathlib import Path

import msgspec

DEFAULT_PORT = 6443  # as in Kubernetes
SIMULATED_PODS = "198.19.0.0/16"  # reserved for benchmarks and not routed


class ServerStartError(Exception):
    """The reason why a server cannot start. The text is shown to the user."""


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an API server.

    `store` is memory, sqlite, sqlite:PATH or etcd://HOST:PORT,…; `port` 0 is any free port. Without a port, the
    cluster's previous port is used, else 6443, else any. With `gates_enable_apis`, a gate also enables its kinds
    without a stable version.
    """

    dir: Path = Path(".dray")
    host: str = "127.0.0.1"
    port: int | None = None
    store: str = "sqlite"
    feature_gates: str = ""
    runtime_config: str = ""
    disable_admission_plugins: str = ""
    pool_status_per_minute: float = 10.0
    pool_status_burst: int = 20
    pool_status_cap: int | None = None
    token_auth_file: Path | None = None
    keys_from: Path | None = None
    shutdown_delay: float = 0.0
    insecure: bool = False
    gates_enable_apis: bool = False


class ClusterOptions(ServerOptions, frozen=True, kw_only=True):
    """Options of a whole cluster: API server, controllers, scheduler, simulated nodes and node agents.

    `nodes`, `profile` and `autoscale` (a file of node groups) create simulated nodes; `adopt_nodes` selects existing
    nodes by label to simulate; `agents` are real node agents in this process.
    """

    gates_enable_apis: bool = True
    nodes: int = 0
    devices: int = 8
    profile: str = ""
    adopt_nodes: str = ""
    job_seconds: float = 10.0
    agents: int = 0
    runtime: str = "auto"
    simulated_pod_cidr: str = SIMULATED_PODS
    pod_addresses: str = ""
    images: tuple[Path, ...] = ()
    registry: tuple[str, ...] = ()
    scheduler_config: Path | None = None
    autoscale: Path | None = None
    provider_address: str = ""
