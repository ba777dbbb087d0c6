"""The components that a whole cluster runs beside the API server, each as its own user, with shared informers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dray.assembly import dashboard
from dray.assembly.configuration import read_configuration
from dray.assembly.options import ClusterOptions, ServerStartError
from dray.files import read_text, reason

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from dray.api.selectors.labels import LabelRequirements
    from dray.api.simulated import Network
    from dray.api.wire import Tree
    from dray.apiserver.assembly import Running
    from dray.apiserver.read.storage import Storage
    from dray.autoscaling.groups import NodeGroups
    from dray.client import Client, SharedInformers
    from dray.core.configuration import Configuration
    from dray.node.agent import Agent
    from dray.node.images.puller import ImageSettings
    from dray.sim import SimulatedNodes

_LOOK_SECONDS = 1.0  # between checks for waiting pods; simulated nodes start quickly

RunPart = Callable[[], Coroutine[Any, Any, None]]


class ServerPart(NamedTuple):
    """A component that runs beside the API server until cancelled."""

    name: str
    run: RunPart


@dataclass(frozen=True)
class ClusterPlan:
    """The options of a cluster, with all files that they name read and validated."""

    options: ClusterOptions
    profiled: list[Tree]
    """Objects of the nodes in profiles."""
    adopted: LabelRequirements | None
    """Selects existing nodes to simulate."""
    groups: NodeGroups | None
    """Groups of nodes that the autoscaler adds and removes."""
    images: ImageSettings | None
    pod_range: Network
    pod_addresses: IPv4Network | None
    configuration: Configuration


def plan_of(options: ClusterOptions) -> ClusterPlan:
    """Return the plan of a cluster, with validated options, before anything starts.

    Raises ServerStartError, which names the option, if an option is invalid.
    """
    from dray.api.selectors import labels
    from dray.core.configuration import ConfigurationError

    for name in ("nodes", "devices", "agents"):
        if getattr(options, name) < 0:
            raise ServerStartError(f"--{name}: expected a number from 0, got {getattr(options, name)}")
    if options.provider_address and not options.autoscale:
        raise ServerStartError("--provider-address needs --autoscale GROUPS, whose nodes it offers")
    if not options.job_seconds >= 0:
        raise ServerStartError(f"--job-seconds: expected a number from 0, or inf, got {options.job_seconds:g}")
    try:
        adopted = labels.parse(options.adopt_nodes) if options.adopt_nodes else None
    except ValueError as error:
        raise ServerStartError(f"--adopt-nodes {options.adopt_nodes}: {error}") from error
    try:
        configuration = read_configuration(options.scheduler_config)
    except (ConfigurationError, OSError) as error:
        raise ServerStartError(f"--scheduler-config {options.scheduler_config}: {reason(error)}") from error
    try:
        range_, addresses = pod_range(options.simulated_pod_cidr), pod_addresses(options.pod_addresses)
        profiled, groups = _profiled(options), _groups(options)
        images = image_settings(options.images, options.registry)
    except OSError as error:
        raise ServerStartError(f"{error.filename}: {reason(error)}") from error
    except ValueError as error:
        raise ServerStartError(str(error)) from error
    return ClusterPlan(options, profiled, adopted, groups, images, range_, addresses, configuration)


def pod_range(text: str) -> Network:
    """Return the address range of simulated pods.

    Raises ValueError, which names the option, if the text is no range.
    """
    from dray.api import simulated

    try:
        return simulated.pod_range(text)
    except ValueError as error:
        raise ValueError(f"--simulated-pod-cidr: {error}") from None


def pod_addresses(text: str) -> IPv4Network | None:
    """Return the loopback addresses for running pods, or None if they share their node's address. Raises ValueError.

    The text is empty or an address range; ValueError names the option.
    """
    if not text:
        return None
    from dray.node.podaddresses import loopback_range

    try:
        return loopback_range(text)
    except ValueError as error:
        raise ValueError(f"--pod-addresses: {error}") from None


def image_settings(directories: Sequence[Path], registries: Sequence[str]) -> ImageSettings | None:
    """Return the sources of images, or None if none are given. Raises ValueError.

    Registries are HOST or HOST=URL. ValueError names the option with the wrong value.
    """
    if not directories and not registries:  # importing the code that reads images takes long
        return None
    from dray.node.images.puller import ImageSettings

    hosts = {}
    for entry in registries:
        host, _, url = entry.partition("=")
        if not host or (url and not url.startswith(("http://", "https://"))):
            raise ValueError(f"--registry: expected HOST or HOST=URL, got {entry!r}")
        hosts[host] = url
    for directory in directories:
        if not directory.is_dir():
            raise ValueError(f"--images: {directory} is no directory")
    return ImageSettings(tuple(directory.resolve() for directory in directories), hosts)


def _profiled(options: ClusterOptions) -> list[Tree]:
    """Return the objects of the nodes in profiles.

    Empty without profiles. Raises ValueError if a profile is unknown or invalid.
    """
    if not options.profile:
        return []
    from dray.api.times import timestamp
    from dray.sim.profiles import objects_of

    return objects_of(options.profile, timestamp(time.time()), options.nodes)


def _groups(options: ClusterOptions) -> NodeGroups | None:
    """Return the node groups in the autoscaling file, or None without a file.

    Raises GroupError, which names the file, if its content is invalid.
    """
    if not options.autoscale:
        return None
    from dray.api.gates import FeatureGates
    from dray.autoscaling import loop  # noqa: F401 (takes long, so it is imported before the event loop runs)
    from dray.autoscaling.groups import GroupError, read

    try:
        return read(read_text(options.autoscale), (), FeatureGates.parse(options.feature_gates))
    except GroupError as error:
        raise GroupError(f"{options.autoscale}: {error}") from error


def parts(running: Running, plan: ClusterPlan, abandoned: list[str]) -> Sequence[ServerPart]:
    """Return controllers, scheduler, simulated nodes and node agents. `abandoned` are nodes to remove."""
    from dray.api.users import ADMIN, AUTHENTICATED, MASTERS, User
    from dray.client import InProcess, SharedInformers

    options = plan.options
    informers = SharedInformers(InProcess(running.api, ADMIN, user_agent="dray"))

    def client(name: str, *groups: str) -> Client:
        user = User(name, groups=(*groups, AUTHENTICATED))
        return InProcess(running.api, user, user_agent=name.removeprefix("system:"))

    def account(name: str) -> Client:
        return client(f"system:serviceaccount:kube-system:{name}")

    manager, volumes = client("system:kube-controller-manager", MASTERS), str(options.dir.resolve() / "volumes")
    agents = [_agent(f"agent-{number}", running, plan) for number in range(options.agents)]
    scheduler = _scheduler(client("system:kube-scheduler"), informers, running, plan)
    listed = [
        ServerPart("informers", _informers(informers)),
        ServerPart("leftovers", _leftovers(manager, abandoned, options.dir)),
        ServerPart("controllers", _controllers(manager, informers, running, account, volumes)),
        ServerPart("scheduler", _after_agents(agents, scheduler)),
    ]
    if options.nodes or plan.profiled or plan.groups is not None or plan.adopted is not None:
        nodes = client("system:simulated-nodes", MASTERS)
        scaler = client("system:cluster-autoscaler", MASTERS)
        listed += _nodes(nodes, scaler, informers, running, plan)
    listed += [ServerPart(f"node {agent.name}", agent.run) for agent in agents]
    return [*listed, ServerPart("dashboard", dashboard.mount(running, options).run)]


def _informers(informers: SharedInformers) -> RunPart:
    """Return a component that stops the shared informers together with the components that use them.

    Otherwise each informer would try to watch the stopping server again.
    """

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await informers.stop()

    return run


def leftovers(storage: Storage, plan: ClusterPlan) -> list[str]:
    """Return the nodes from an earlier start that this start does not run.

    These are simulated nodes, and agents of this directory.
    """
    from dray.api.resources import BY_TYPE
    from dray.api.simulated import SIMULATED
    from dray.api.types.core import Node
    from dray.sim.hardware import node_name

    simulated = {node_name(number) for number in range(plan.options.nodes)}
    simulated |= {tree["metadata"]["name"] for tree in plan.profiled if tree["kind"] == "Node"}
    agents = {f"agent-{number}" for number in range(plan.options.agents)}
    had = {path.name for path in (plan.options.dir / "nodes").glob("agent-*")}
    found = []
    for node in storage.list(BY_TYPE[Node]):
        assert isinstance(node, Node)
        name, is_simulated = node.metadata.name, node.metadata.labels.get(SIMULATED) == "true"
        if plan.groups is not None and plan.groups.of(node) is not None:
            continue  # the provider of simulated nodes adopts the node
        if plan.adopted is not None and plan.adopted.matches(node.metadata.labels):
            continue
        if (is_simulated and name not in simulated) or (name in had and name not in agents):
            found.append(name)
    return found


def _leftovers(client: Client, names: list[str], directory: Path) -> RunPart:
    """Return a component that deletes abandoned nodes and kills their containers.

    Their pods and slices are deleted with them.
    """
    from dray.api.errors import NotFound
    from dray.api.types.core import Node
    from dray.assembly import containers

    async def run() -> None:
        for name in names:
            with contextlib.suppress(NotFound):
                await client.delete(Node, name)
            await containers.end(directory, name)
        await asyncio.Event().wait()

    return run


def _controllers(
    client: Client, informers: SharedInformers, running: Running, accounts: Callable[[str], Client], volumes: str
) -> RunPart:
    """Return the controller manager as a component to run."""
    from dray.controllers import ControllerManager

    return ControllerManager(
        client,
        gates=running.gates,
        informers=informers,
        root_ca=running.root_ca,
        accounts=accounts,
        volumes=volumes,
    ).run


def _scheduler(client: Client, informers: SharedInformers, running: Running, plan: ClusterPlan) -> RunPart:
    """Return the scheduler as a component to run."""
    from dray.scheduler import Scheduler

    give_way, background = running.api.priority.give_way, running.background
    scheduler = Scheduler(
        client, running.gates, plan.configuration, informers=informers, give_way=give_way, background=background
    )
    return scheduler.run


def _after_agents(agents: Sequence[Agent], scheduler: RunPart) -> RunPart:
    """Return the scheduler, delayed until all agents have started.

    A stored node is still Ready from before this start. Until its agent has deleted the old slices, pods would be
    scheduled onto drivers that do not run.
    """

    async def run() -> None:
        await asyncio.gather(*(agent.started.wait() for agent in agents))
        await scheduler()

    return run


def _nodes(
    client: Client, scaler: Client, informers: SharedInformers, running: Running, plan: ClusterPlan
) -> list[ServerPart]:
    """Return the simulated nodes, and the autoscaling of some of them."""
    from dray.sim import SimulatedNodes

    nodes = SimulatedNodes(
        client,
        informers,
        plan.options.nodes,
        plan.options.devices,
        gates=running.gates,
        profiled=plan.profiled,
        adopted=plan.adopted,
        job_seconds=plan.options.job_seconds,
        pod_range=plan.pod_range,
    )
    work = autoscaling(scaler, informers, nodes, plan.groups, running, plan) if plan.groups is not None else None

    async def run() -> None:
        await informers.start()
        await asyncio.gather(nodes.run(), informers.synced())

    listed = [ServerPart("simulated nodes", run)]
    return listed if work is None else [*listed, ServerPart("autoscaling", work)]


def autoscaling(
    client: Client,
    informers: SharedInformers,
    nodes: SimulatedNodes,
    groups: NodeGroups,
    running: Running,
    plan: ClusterPlan,
) -> RunPart:
    """Return the component that adds and removes nodes of groups.

    This is dray's autoscaler, or a gRPC provider for Cluster Autoscaler.
    """
    from dray.api.types.core import Node
    from dray.api.wire import tree_of
    from dray.autoscaling.simulated import SimulatedProvider

    provider = SimulatedProvider(nodes, groups)
    known = informers.informer(Node)
    work: RunPart
    if plan.options.provider_address:
        from dray.autoscaling.external_server import serve

        work = partial(serve, provider, groups, plan.options.provider_address)
    else:
        from dray.autoscaling.loop import Autoscaler

        work = Autoscaler(client, informers, provider, groups, gates=running.gates, interval=_LOOK_SECONDS).run

    async def run() -> None:
        await informers.start()
        await informers.synced()
        provider.adopt(known.list())
        await nodes.add([tree_of(one) for one in groups.classes(())])
        await asyncio.gather(provider.run(), work())

    return run


def _agent(name: str, running: Running, plan: ClusterPlan) -> Agent:
    """Return a node agent with the rights of a node."""
    from dray.api.users import node_user
    from dray.client import InProcess
    from dray.node.agent import Agent, AgentSettings
    from dray.node.images.puller import ImageSettings

    options = plan.options
    settings = AgentSettings(
        name,
        options.dir / "nodes" / name,
        runtime=options.runtime,
        authority="" if options.insecure else running.root_ca,
        api_server=running.address,
        images=plan.images or ImageSettings(),
        gates=running.gates,
        outlived=options.store != "memory",
        pod_range=plan.pod_range,
        pod_addresses=plan.pod_addresses,
    )
    client = InProcess(running.api, node_user(name), user_agent=f"dray-node/{name}")
    return Agent(client, settings)
