"""The parts that `dray up` runs beside the API server, each as its own user, on one set of informers."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli import _dashboard
from dray.cli._serve import ServerPart, Work
from dray.cli.node import add_image_options, add_pod_range_option, add_runtime_option, image_settings, pod_range
from dray.files import read_text

if TYPE_CHECKING:
    from dray.api.selectors.labels import LabelRequirements
    from dray.api.wire import Tree
    from dray.apiserver.assembly import Running
    from dray.apiserver.read.storage import Storage
    from dray.autoscaling.groups import NodeGroups
    from dray.client import Client, SharedInformers
    from dray.node.agent import Agent
    from dray.sim import SimulatedNodes

_LOOK_SECONDS = 1.0  # between two looks for pods that wait: simulated nodes come fast


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nodes", type=int, default=0, metavar="N", help="simulated nodes that are ready at once (%(default)s)"
    )
    parser.add_argument(
        "--devices", type=int, default=8, metavar="M", help="devices of each simulated node (%(default)s)"
    )
    parser.add_argument(
        "--profile", default="", metavar="NAME*N,…", help="simulated nodes of these kinds: dgx-h100*4,mig-a100*2,cpu*10"
    )
    parser.add_argument(
        "--adopt-nodes",
        default="",
        metavar="LABELS",
        help="play nodes that you make yourself, too, if their labels match: rack=7, or pool in (a,b)",
    )
    parser.add_argument(
        "--job-seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="how long pods of Jobs run on simulated nodes unless annotated; inf: until they are deleted (%(default)g)",
    )
    parser.add_argument(
        "--agents",
        type=int,
        default=0,
        metavar="N",
        help="real nodes agent-0, agent-1, …: node agents in this process, each below DIR/nodes (%(default)s)",
    )
    add_runtime_option(parser)
    add_pod_range_option(parser, "of simulated nodes and of the runtime fake")
    add_image_options(parser)
    parser.add_argument("--scheduler-config", metavar="FILE", help="a KubeSchedulerConfiguration")
    parser.add_argument(
        "--autoscale",
        type=Path,
        metavar="GROUPS",
        help="add and remove simulated nodes of these groups as pods need them",
    )
    parser.add_argument(
        "--provider-address",
        default="",
        metavar="HOST:PORT",
        help="let Cluster Autoscaler add and remove the nodes of --autoscale instead, by its external gRPC protocol",
    )


def problem(args: argparse.Namespace) -> str:
    """What is wrong with the options, before anything is started; empty when nothing is."""
    from dray.cli.scheduler import read_configuration
    from dray.core.configuration import ConfigurationError

    for name in ("nodes", "devices", "agents"):
        if getattr(args, name) < 0:
            return f"--{name}: expected a number from 0, got {getattr(args, name)}"
    if args.provider_address and not args.autoscale:
        return "--provider-address needs --autoscale GROUPS, whose nodes it offers"
    if not args.job_seconds >= 0:
        return f"--job-seconds: expected a number from 0, or inf, got {args.job_seconds:g}"
    try:
        adopted(args)
    except ValueError as error:
        return f"--adopt-nodes {args.adopt_nodes}: {error}"
    try:
        pod_range(args)
        profiled(args)
        node_groups(args)
        if args.images or args.registry:  # what reads images takes long to import
            image_settings(args)
    except (ValueError, OSError) as error:
        return str(error)
    try:
        read_configuration(Path(args.scheduler_config) if args.scheduler_config else None)
    except (ConfigurationError, OSError) as error:
        return f"--scheduler-config {args.scheduler_config}: {error}"
    return ""


def profiled(args: argparse.Namespace) -> list[Tree]:
    """The objects of the nodes that profiles ask for. Raises ProfileError, a ValueError."""
    if not args.profile:
        return []
    from dray.api.times import timestamp
    from dray.sim.profiles import objects_of

    return objects_of(args.profile, timestamp(time.time()), args.nodes)


def node_groups(args: argparse.Namespace) -> NodeGroups | None:
    """The groups whose nodes come and go by themselves. Raises GroupError, a ValueError."""
    if not args.autoscale:
        return None
    from dray.api.gates import FeatureGates
    from dray.autoscaling import loop  # noqa: F401 (takes long, so it is imported before the event loop runs)
    from dray.autoscaling.groups import GroupError, read

    try:
        return read(read_text(args.autoscale), (), FeatureGates.parse(args.feature_gates))
    except GroupError as error:
        raise GroupError(f"{args.autoscale}: {error}") from error


def adopted(args: argparse.Namespace) -> LabelRequirements | None:
    """Which nodes of others are played; SelectorError, a ValueError, when the labels make no sense."""
    from dray.api.selectors import labels

    return labels.parse(args.adopt_nodes) if args.adopt_nodes else None


def parts(running: Running, args: argparse.Namespace) -> Sequence[ServerPart]:
    """Controllers, scheduler, simulated nodes and node agents."""
    from dray.api.users import ADMIN, AUTHENTICATED, MASTERS, User
    from dray.client import InProcess, SharedInformers

    informers = SharedInformers(InProcess(running.api, ADMIN, user_agent="dray"))

    def client(name: str, *groups: str) -> Client:
        user = User(name, groups=(*groups, AUTHENTICATED))
        return InProcess(running.api, user, user_agent=name.removeprefix("system:"))

    def account(name: str) -> Client:
        return client(f"system:serviceaccount:kube-system:{name}")

    manager, volumes = client("system:kube-controller-manager", MASTERS), str(Path(args.dir).resolve() / "volumes")
    agents = [_agent(f"agent-{number}", running, args) for number in range(args.agents)]
    scheduler = _scheduler(client("system:kube-scheduler"), informers, running, args)
    listed = [
        ServerPart("informers", _informers(informers)),
        ServerPart("leftovers", _leftovers(manager, leftovers(running.api.storage, args), args.dir)),
        ServerPart("controllers", _controllers(manager, informers, running, account, volumes)),
        ServerPart("scheduler", _after_agents(agents, scheduler)),
    ]
    if args.nodes or args.profile or args.autoscale or args.adopt_nodes:
        nodes = client("system:simulated-nodes", MASTERS)
        scaler = client("system:cluster-autoscaler", MASTERS)
        listed += _nodes(nodes, scaler, informers, running, args)
    listed += [ServerPart(f"node {agent.name}", agent.run) for agent in agents]
    return [*listed, ServerPart("dashboard", _dashboard.mount(running, args).run)]


def _informers(informers: SharedInformers) -> Work:
    """End the informers with the parts that share them: left alone, each would watch a server once more that stops."""

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await informers.stop()

    return run


def leftovers(storage: Storage, args: argparse.Namespace) -> list[str]:
    """The nodes of an earlier start that this one does not run: simulated ones, and agents of this directory."""
    from dray.api.resources import BY_TYPE
    from dray.api.simulated import SIMULATED
    from dray.api.types.core import Node
    from dray.sim.hardware import node_name

    simulated = {node_name(number) for number in range(args.nodes)}
    simulated |= {tree["metadata"]["name"] for tree in profiled(args) if tree["kind"] == "Node"}
    groups, others = node_groups(args), adopted(args)
    agents = {f"agent-{number}" for number in range(args.agents)}
    had = {path.name for path in (args.dir / "nodes").glob("agent-*")}
    found = []
    for node in storage.list(BY_TYPE[Node]):
        assert isinstance(node, Node)
        name, is_simulated = node.metadata.name, node.metadata.labels.get(SIMULATED) == "true"
        if groups is not None and groups.of(node) is not None:
            continue  # the provider of simulated nodes takes it over
        if others is not None and others.matches(node.metadata.labels):
            continue
        if (is_simulated and name not in simulated) or (name in had and name not in agents):
            found.append(name)
    return found


def _leftovers(client: Client, names: list[str], directory: Path) -> Work:
    """Remove nodes that nobody runs any more, and end their containers; their pods and slices go with them."""
    from dray.api.errors import NotFound
    from dray.api.types.core import Node
    from dray.cli import _containers

    async def run() -> None:
        for name in names:
            with contextlib.suppress(NotFound):
                await client.delete(Node, name)
            await _containers.end(directory, name)
        await asyncio.Event().wait()

    return run


def _controllers(
    client: Client, informers: SharedInformers, running: Running, accounts: Callable[[str], Client], volumes: str
) -> Work:
    from dray.controllers import ControllerManager

    return ControllerManager(
        client,
        gates=running.gates,
        informers=informers,
        root_ca=running.root_ca,
        accounts=accounts,
        volumes=volumes,
    ).run


def _scheduler(client: Client, informers: SharedInformers, running: Running, args: argparse.Namespace) -> Work:
    from dray.cli.scheduler import read_configuration
    from dray.scheduler import Scheduler

    configuration = read_configuration(Path(args.scheduler_config) if args.scheduler_config else None)
    give_way, background = running.api.priority.give_way, running.background
    scheduler = Scheduler(
        client, running.gates, configuration, informers=informers, give_way=give_way, background=background
    )
    return scheduler.run


def _after_agents(agents: Sequence[Agent], scheduler: Work) -> Work:
    """Run the scheduler once all agents have started.

    A stored node is still Ready from the time before this start. Until its agent has deleted the slices of that time,
    pods would be scheduled onto drivers that do not run.
    """

    async def run() -> None:
        await asyncio.gather(*(agent.started.wait() for agent in agents))
        await scheduler()

    return run


def _nodes(
    client: Client, scaler: Client, informers: SharedInformers, running: Running, args: argparse.Namespace
) -> list[ServerPart]:
    """Simulated nodes, and what adds and removes some of them."""
    from dray.sim import SimulatedNodes

    nodes = SimulatedNodes(
        client,
        informers,
        args.nodes,
        args.devices,
        gates=running.gates,
        profiled=profiled(args),
        adopted=adopted(args),
        job_seconds=args.job_seconds,
        pod_range=pod_range(args),
    )
    groups = node_groups(args)
    work = autoscaling(scaler, informers, nodes, groups, running, args) if groups is not None else None

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
    args: argparse.Namespace,
) -> Work:
    """What adds and removes nodes of groups: the loop, or Cluster Autoscaler through gRPC."""
    from dray.api.types.core import Node
    from dray.api.wire import tree_of
    from dray.autoscaling.simulated import SimulatedProvider

    provider = SimulatedProvider(nodes, groups)
    known = informers.informer(Node)
    work: Work
    if args.provider_address:
        from dray.autoscaling.external_server import serve

        work = partial(serve, provider, groups, args.provider_address)
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


def _agent(name: str, running: Running, args: argparse.Namespace) -> Agent:
    """A node agent with the rights of a node."""
    from dray.api.users import node_user
    from dray.client import InProcess
    from dray.node.agent import Agent, AgentSettings

    settings = AgentSettings(
        name,
        args.dir / "nodes" / name,
        runtime=args.runtime,
        authority="" if args.insecure else running.root_ca,
        api_server=running.address,
        images=image_settings(args),
        gates=running.gates,
        outlived=args.store != "memory",
        pod_range=pod_range(args),
    )
    client = InProcess(running.api, node_user(name), user_agent=f"dray-node/{name}")
    return Agent(client, settings)
