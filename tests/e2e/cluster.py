"""A cluster within the process of a test: API server, controllers, scheduler, simulated nodes, and an audit of them.

Each part has a user, a client and informers of its own, as it would in a process of its own, and can be stopped and
started again, with other gates. The audit runs through every test; its findings fail the test at the next wait, or at the
end. Left out: processes and HTTP, which tests of the commands use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dray.api.errors import NotFound
from dray.api.gates import FeatureGates
from dray.api.types.core import Event, Node, Pod
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.api.users import ADMIN, AUTHENTICATED, MASTERS, User
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Client, InProcess, Object, SharedInformers
from dray.controllers import ControllerManager
from dray.core.configuration import Configuration
from dray.scheduler import Scheduler
from dray.sim import SimulatedNodes
from tests.e2e.audit import Audit, Complaints
from tests.e2e.interference import Hook, interposed
from tests.waiting import SECONDS, eventually, quiet, within

CONTROLLERS, SCHEDULER, NODES = "controllers", "scheduler", "nodes"
SECOND_SCHEDULER = "second scheduler"
PARTS = (CONTROLLERS, SCHEDULER, NODES)
NAMESPACE = "default"

T = TypeVar("T")
O = TypeVar("O", bound=Object)  # noqa: E741  (an object of the API)


@dataclass
class Part:
    """Something that runs, with what it watches through."""

    task: asyncio.Task[None]
    informers: SharedInformers
    work: Any  # the scheduler, the controllers or the nodes, for tests that look inside


@dataclass
class Cluster:
    """What a test holds in its hands."""

    running: Running
    nodes: int
    devices: int
    parts: dict[str, Part] = field(default_factory=dict)
    gates: FeatureGates = field(default_factory=FeatureGates)
    hooks: dict[str, Hook] = field(default_factory=dict)  # asked before each write of a part that is started later
    configurations: dict[str, Configuration] = field(default_factory=dict)
    users: dict[str, User] = field(default_factory=dict)  # of parts that do not work as Kubernetes' users

    def __post_init__(self) -> None:
        self.client: Client = InProcess(self.running.api, ADMIN)
        self.audit = Audit(self.client)

    # -- parts

    async def start(self, name: str, gates: str | None = None) -> None:
        """Start a part that does not run, and wait until it has seen the cluster."""
        assert name not in self.parts, f"{name} runs already"
        client = self.client_of(name)
        informers = SharedInformers(client)
        chosen = self.gates if gates is None else FeatureGates.parse(gates)
        work = self._make(name, client, informers, chosen)
        task = asyncio.create_task(work.run(), name=name)
        self.parts[name] = Part(task, informers, work)
        await informers.start()
        await within(informers.synced())

    def _make(self, name: str, client: Client, informers: SharedInformers, gates: FeatureGates) -> Any:
        if name == CONTROLLERS:
            return ControllerManager(client, gates=gates, informers=informers, root_ca=self.running.root_ca or "CA")
        if name == NODES:
            return SimulatedNodes(client, informers, self.nodes, self.devices, gates=gates)
        return Scheduler(client, gates, self.configurations.get(name), informers=informers)

    def client_of(self, name: str) -> Client:
        user = self.users.get(name) or {
            CONTROLLERS: User("system:kube-controller-manager", groups=(MASTERS, AUTHENTICATED)),
            NODES: User("system:simulated-nodes", groups=(MASTERS, AUTHENTICATED)),
        }.get(name, User("system:kube-scheduler", groups=(AUTHENTICATED,)))
        client = InProcess(self.running.api, user, user_agent=user.name.removeprefix("system:"))
        return interposed(client, self.hooks[name]) if name in self.hooks else client

    async def stop(self, *names: str) -> None:
        """Stop parts as abruptly as a task can be stopped."""
        for name in names or tuple(self.parts):
            part = self.parts.pop(name)
            part.task.cancel()
            await asyncio.gather(part.task, return_exceptions=True)
            await part.informers.stop()

    async def restart(self, name: str, gates: str | None = None) -> None:
        await self.stop(name)
        await self.start(name, gates)

    @property
    def scheduler(self) -> Scheduler:
        work = self.parts[SCHEDULER].work
        assert isinstance(work, Scheduler)
        return work

    def check(self) -> None:
        """Fail if the audit found something or a part ended by itself."""
        for name, part in self.parts.items():
            if part.task.done():
                raise AssertionError(f"{name} ended") from part.task.exception()
        assert not self.audit.findings, "\n".join(self.audit.findings)

    # -- waiting and looking

    async def is_published(self) -> bool:
        """Whether all nodes are there, with their devices."""
        nodes, slices = (await self.client.list(Node)).items, (await self.client.list(ResourceSlice)).items
        return len(nodes) >= self.nodes and (
            not self.devices or len({one.spec.nodeName for one in slices}) >= self.nodes
        )

    async def eventually(self, look: Callable[[], Awaitable[T]], seconds: float = SECONDS) -> T:
        """Wait until looking gives something that counts as true while the cluster is well, and return it."""

        async def checked() -> T:
            found = await look()
            self.check()
            return found

        checked.__qualname__ = getattr(look, "__qualname__", repr(look))
        return await eventually(checked, seconds)

    async def pod(self, name: str, namespace: str = NAMESPACE) -> Pod:
        return await self.client.get(Pod, name, namespace)

    async def claim(self, name: str, namespace: str = NAMESPACE) -> ResourceClaim:
        return await self.client.get(ResourceClaim, name, namespace)

    async def claims(self, namespace: str = NAMESPACE) -> Sequence[ResourceClaim]:
        return (await self.client.list(ResourceClaim, namespace)).items

    async def create(self, type_: type[O], *trees: dict[str, Any]) -> O:
        """Create objects; the last one is returned."""
        assert trees
        for tree in trees:
            made = await self.client.create(type_, tree)
        return made

    async def delete(self, type_: type[Object], name: str, namespace: str = NAMESPACE, **options: Any) -> None:
        await self.client.delete(type_, name, namespace, **options)

    async def runs(self, *names: str, namespace: str = NAMESPACE, phase: str = "Running") -> Pod:
        """Wait until pods run (or are in another phase); the last of them."""
        for name in names:

            async def there(name: str = name) -> Pod | None:
                pod = await self.pod(name, namespace)
                return pod if pod.status.phase == phase else None

            await self.eventually(there)
        return await self.pod(names[-1], namespace)

    async def gone(self, type_: type[Object], name: str, namespace: str = NAMESPACE) -> None:
        async def absent() -> bool:
            try:
                await self.client.get(type_, name, namespace)
            except NotFound:
                return True
            return False

        await self.eventually(absent)

    async def told(self, name: str, reason: str, text: str = "", namespace: str = NAMESPACE) -> str:
        """Wait until an event with this reason and text is recorded for a pod; its message."""

        async def look() -> str:
            events = (await self.client.list(Event, namespace, fields=f"involvedObject.name={name}")).items
            return next((e.message for e in events if e.reason == reason and text in e.message), "")

        return await self.eventually(look)

    async def waits(self, name: str, text: str = "", namespace: str = NAMESPACE) -> str:
        """Wait until a pod's condition says that it cannot be scheduled, with this text; the message."""

        said = ""

        async def look() -> str:
            nonlocal said
            conditions = (await self.pod(name, namespace)).status.conditions
            found = next((c for c in conditions if c.type == "PodScheduled"), None)
            said = f"{found.status} {found.reason}: {found.message}" if found is not None else "nothing"
            if found is None or found.status != "False" or found.reason not in ("Unschedulable", "SchedulerError"):
                return ""
            return found.message if text in found.message else ""

        try:
            return await self.eventually(look)
        except AssertionError as error:
            raise AssertionError(f"{error}; the condition said {said}") from None

    async def quiet(self, seconds: float = 0.2) -> None:
        """Give parts time to do something that they should not do."""
        await quiet(seconds)
        self.check()


@asynccontextmanager
async def cluster(
    nodes: int = 3,
    devices: int = 2,
    *,
    gates: str = "",
    parts: Sequence[str] = PARTS,
    **settings: Any,
) -> AsyncIterator[Cluster]:
    """A cluster until the block ends; then everything that was found is told."""
    chosen = FeatureGates.parse(gates)
    running = await Running.open(ServerSettings(gates=chosen, **settings))
    made = Cluster(running, nodes, devices, gates=chosen)
    complaints = Complaints(made.audit.findings)
    logging.getLogger("dray").addHandler(complaints)
    try:
        await made.audit.start()
        for name in sorted(parts, key=(NODES, CONTROLLERS, SCHEDULER).index):
            await made.start(name)
            if name == NODES:
                await made.eventually(made.is_published)
        yield made
        made.check()
    finally:
        await made.stop()
        await made.audit.stop()
        logging.getLogger("dray").removeHandler(complaints)
        await running.close()
