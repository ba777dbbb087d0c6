"""A node agent as a separate process for any API server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from dray.api.gates import FeatureGates
from dray.api.types.core import Pod
from dray.assembly.component import ComponentError
from dray.assembly.options import SIMULATED_PODS
from dray.assembly.parts import image_settings, pod_addresses, pod_range
from dray.client import Client
from dray.client.config import Config
from dray.client.http import Http
from dray.client.readiness import Readiness
from dray.node.agent import Agent, AgentError, AgentSettings
from dray.node.images.puller import ImageSettings
from dray.node.runtimes import open_runtime


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `dray node`; `labels` and `capacity` are NAME=VALUE,…."""

    name: str
    root: Path
    runtime: str = "auto"
    simulated_pod_cidr: str = SIMULATED_PODS
    pod_addresses: str = ""
    address: str = "127.0.0.1"
    log_port: int = 0
    labels: str = ""
    capacity: str = ""
    cdi_dir: tuple[Path, ...] = ()
    images: tuple[Path, ...] = ()
    registry: tuple[str, ...] = ()


class StandaloneNode:
    """A node agent with validated options. Creating it raises ValueError and RuntimeUnavailable."""

    def __init__(self, options: NodeOptions) -> None:
        self._options = options
        self._labels, self._capacity = _pairs("--labels", options.labels), _pairs("--capacity", options.capacity)
        self._images = image_settings(options.images, options.registry) or ImageSettings()
        self._pod_range = pod_range(options.simulated_pod_cidr)
        self._pod_addresses = pod_addresses(options.pod_addresses)
        self.runtime = open_runtime(options.runtime, options.root.resolve())

    async def run(self, client: Http, gates: FeatureGates, readiness: Readiness) -> None:
        """Run the agent until cancelled. Raises ComponentError."""
        readiness.start()
        settings = AgentSettings(
            self._options.name,
            self._options.root,
            address=self._options.address,
            log_port=self._options.log_port,
            labels=self._labels,
            capacity=self._capacity,
            cdi_directories=self._options.cdi_dir,
            authority=_authority(client.config),
            api_server=_address(client.config),
            images=self._images,
            gates=gates,
            pod_range=self._pod_range,
            pod_addresses=self._pod_addresses,
        )
        try:
            await Agent(client, settings, runtime=self.runtime).run()
        except (AgentError, OSError) as error:
            raise ComponentError(str(error)) from error

    async def lists_own_pods(self, client: Client) -> None:
        """List the node's pods, which an agent requires."""
        await client.list(Pod, fields=f"spec.nodeName={self._options.name}", limit=1)


def _authority(config: Config) -> str:
    """Return the cluster's CA certificate, or "" if it has none, as an API server without users."""
    return config.ca.decode() if config.server.startswith("https") else ""


def _address(config: Config) -> str:
    """Return HOST:PORT of the API server, for clients in containers."""
    server = urlsplit(config.server)
    host = server.hostname or ""
    return f"{f'[{host}]' if ':' in host else host}:{server.port or (443 if server.scheme == 'https' else 80)}"


def _pairs(option: str, text: str) -> dict[str, str]:
    """Return the names and values in NAME=VALUE,….

    Empty entries are ignored. Raises ValueError, which names `option`, if an entry has no name or no equals sign.
    """
    pairs = {}
    for entry in filter(None, text.split(",")):
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise ValueError(f"{option}: expected NAME=VALUE,…, got {entry!r}")
        pairs[name] = value
    return pairs
