"""The node agent: creates all parts of a node and starts them in the right order.

The order: first the agent's own state (lock, checkpoint, runtime); then the ResourceSlices of drivers that ran
earlier are deleted and the directories for drivers are created. Only then the node becomes Ready, drivers may
register and pods run. When the agent ends, its containers keep running and the next agent finds them again, unless
the cluster lives in memory and ends as well. Left out: all decisions, which the parts make.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path

from dray.api.gates import OPTIONAL_OPERATIONS, FeatureGates, declared_features
from dray.api.podclaims import Sharing
from dray.api.simulated import POD_RANGE, Network
from dray.api.types.core import Node as NodeObject
from dray.api.types.core import Pod
from dray.client import Client, Clock, EventRecorder, Informer, SystemClock
from dray.node.cdi import Specs
from dray.node.checkpoint import Checkpoint
from dray.node.claims import ClaimsOnNode
from dray.node.context import REFRESH_SECONDS, USAGE_SECONDS, NodeContext
from dray.node.health import DeviceHealthCache
from dray.node.hostpaths import HostPaths
from dray.node.identity import Heartbeat, NodeIdentity, machine_capacity
from dray.node.images.puller import Images, ImageSettings
from dray.node.kubeletapi import KubeletApi
from dray.node.lifecycle import RestartDelays
from dray.node.logserver import LogServer
from dray.node.plugins import Plugins
from dray.node.podresources import PodResources
from dray.node.pods import Pods
from dray.node.podworker import FORCED_GRACE_SECONDS
from dray.node.runtime import Runtime
from dray.node.runtimes import open_runtime
from dray.node.slices import Slices

PLUGIN_DIRECTORIES = ("plugins_registry", "plugins", "cdi")  # directories for drivers, in the agent's root
SYSTEM_CDI_DIRECTORIES = (Path("/etc/cdi"), Path("/var/run/cdi"))


class AgentError(Exception):
    """An agent cannot start. The text gives the reason for the user."""


@dataclass(frozen=True)
class AgentSettings:
    """Settings of a node agent."""

    name: str
    root: Path
    runtime: str = "auto"
    address: str = "127.0.0.1"
    log_port: int = 0  # 0: any free port
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    cdi_directories: tuple[Path, ...] = ()  # empty: the system's directories, then `cdi` in the agent's root
    authority: str = ""  # the cluster's CA in PEM: clients that read logs must show a certificate signed by this CA
    gates: FeatureGates = field(default_factory=FeatureGates)
    delays: RestartDelays = field(default_factory=RestartDelays)
    images: ImageSettings = field(default_factory=ImageSettings)
    api_server: str = ""  # HOST:PORT, as containers reach it
    refresh_seconds: float = REFRESH_SECONDS
    usage_seconds: float = USAGE_SECONDS  # interval between two measurements of volumes with a size limit
    pod_range: Network = POD_RANGE  # addresses of pods under the fake runtime
    # range for pods that really run, one address each; None: pods share the node's address
    pod_addresses: IPv4Network | None = None
    outlived: bool = True  # containers keep running after the agent; False: they end with it (for clusters in memory)


class Agent:
    """The agent of one node. `run` works until cancelled; `started` is set once drivers may register and pods run."""

    def __init__(
        self, client: Client, settings: AgentSettings, *, clock: Clock | None = None, runtime: Runtime | None = None
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock or SystemClock()
        self._given_runtime = runtime
        self.name = settings.name
        self.started = asyncio.Event()

    async def run(self) -> None:
        root = self._settings.root.resolve()
        _make_root(root)
        lock = _lock(root)
        try:
            await self._run(root)
        finally:
            os.close(lock)

    async def _run(self, root: Path) -> None:
        settings, client, clock = self._settings, self._client, self._clock
        runtime = self._given_runtime or open_runtime(settings.runtime, root)
        checkpoint, problem = Checkpoint.open(root / "claims.json")
        informer = Informer(client, Pod, fields=f"spec.nodeName={settings.name}", clock=clock)
        kubelet = KubeletApi(settings.name, runtime, informer.list, clock)
        logs = LogServer(runtime, informer.get, clock, kubelet)
        port = await logs.start(settings.address, settings.log_port, root, settings.authority)
        try:
            features = declared_features(settings.gates)
            identity = NodeIdentity(
                settings.name,
                settings.address,
                runtime.name,
                settings.labels,
                settings.capacity,
                port,
                features,
                runs_pods=runtime.executes,
            )
            heartbeat = Heartbeat(client, identity, clock)
            slices = Slices(client, settings.name, clock)
            _make_plugin_directories(root)
            await slices.remove()
            await heartbeat.register()  # last, because from now on pods are scheduled onto this node's slices
            parts = _Parts(self, root, runtime, checkpoint, informer, slices)
            await parts.run(heartbeat, problem)
        finally:
            await logs.stop()
            if not settings.outlived:
                await _end_containers(runtime)


class _Parts:
    """The parts of an agent that run concurrently once the node is registered."""

    def __init__(
        self,
        agent: Agent,
        root: Path,
        runtime: Runtime,
        checkpoint: Checkpoint,
        informer: Informer[Pod],
        slices: Slices,
    ) -> None:
        settings, client, clock = agent._settings, agent._client, agent._clock
        self._client = client
        self._slices = slices
        self._started = agent.started
        self._informer = informer
        self._name = settings.name
        self._recorder = EventRecorder(client, "kubelet", host=settings.name, clock=clock)
        health = DeviceHealthCache(clock, lambda: self._pods.health_changed())
        self._plugins = Plugins(
            root / "plugins_registry",
            clock=clock,
            changed=lambda name: self._pods.driver_changed(),
            lost=lambda name: self._claims.show(),
            remove_slices=self._driver_gone,
            accompany=health.follow,
            locate=HostPaths(root).locate,
        )
        self._claims = ClaimsOnNode(
            client,
            checkpoint,
            self._plugins,
            Sharing.of(settings.gates),
            skips=settings.gates.served(OPTIONAL_OPERATIONS),
        )
        node = NodeContext(
            name=settings.name,
            root=root,
            address=settings.address,
            client=client,
            clock=clock,
            runtime=runtime,
            claims=self._claims,
            specs=Specs(settings.cdi_directories or (*SYSTEM_CDI_DIRECTORIES, root / "cdi")),
            health=health,
            recorder=self._recorder,
            delays=settings.delays,
            devices=settings.gates.enabled("DynamicResourceAllocation"),
            images=Images(root, settings.images, clock, self._recorder),
            api_server=settings.api_server,
            refresh_seconds=settings.refresh_seconds,
            capacity=machine_capacity() | dict(settings.capacity),
            pod_range=settings.pod_range,
            own_addresses=settings.pod_addresses,
            usage_seconds=settings.usage_seconds,
            pods=informer.list,
        )
        self._pods = Pods(node, informer)
        self._resources = PodResources(node.claims, informer.list)
        self._root = root

    async def _driver_gone(self, name: str) -> None:
        self._pods.driver_gone(name)
        await self._slices.remove(name)

    async def run(self, heartbeat: Heartbeat, problem: str) -> None:
        try:
            await self._resources.start(self._root)
            await self._run(heartbeat, problem)
        finally:
            await self._resources.stop()
            self._claims.show_nothing()

    async def _run(self, heartbeat: Heartbeat, problem: str) -> None:
        if problem:
            node = await self._client.get(NodeObject, self._name)
            self._recorder.warning(node, "CorruptCheckpoint", problem)
        async with asyncio.TaskGroup() as group:
            for work in (heartbeat.run(), self._recorder.run(), self._informer.run(), self._plugins.run()):
                group.create_task(work)
            group.create_task(self._pods.run())
            self._started.set()


def _make_plugin_directories(root: Path) -> None:
    """Create the directories that drivers use, so that they exist when the node becomes Ready."""
    for name in PLUGIN_DIRECTORIES:
        (root / name).mkdir(exist_ok=True)


async def _end_containers(runtime: Runtime) -> None:
    running = [a.key for pod in runtime.pods() for a in runtime.attempts(pod) if a.running]
    await asyncio.gather(*(runtime.stop(key, FORCED_GRACE_SECONDS) for key in running))


def _make_root(root: Path) -> None:
    """Create the agent's root directory with mode 0700, because it holds tokens, secrets and what containers write.

    Raises `AgentError` if the directory belongs to another user.
    """
    root.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    if root.stat().st_uid != os.geteuid():
        raise AgentError(f"{root} belongs to another user")
    root.chmod(0o700)


def _lock(root: Path) -> int:
    """Lock the root directory, so that only one agent uses it. Returns the descriptor of the locked file.

    The kernel releases the lock when the process ends, even after a crash. Raises `AgentError` if another agent
    holds it.
    """
    descriptor = os.open(root / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise AgentError(f"another agent uses {root}") from error
    return descriptor
