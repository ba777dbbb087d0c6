"""A namespace, a player of nodes, and what tests of workloads ask again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from dray.api.errors import Conflict, NotFound
from dray.api.times import timestamp
from dray.api.types.core import Event, Namespace, Pod
from dray.client import Client, Clock, Controller, Deltas, Informer, Key, SystemClock, key_of
from tests.waiting import eventually

NAMESPACE = "ns"
NODE = "node-1"


class Kubelets:
    """Plays scheduler and nodes: pods get a node and become ready, deleted ones go. `holds` says which must wait."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self.holds: Callable[[Pod], bool] = lambda pod: False
        self.lingers: Callable[[Pod], bool] = lambda pod: False  # deleted pods that take their time
        self._client = client
        self._clock = clock or SystemClock()
        self.pods = Informer(client, Pod)
        self._controller: Controller[Key] = Controller("kubelets", self._play, workers=4)
        self.pods.add_handler(self._on_pods)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.pods.run())
            group.create_task(self._controller.run())

    def look(self) -> None:
        """Look at all pods again, after `holds` or `lingers` was changed."""
        for pod in self.pods.list():
            self._controller.queue.add(key_of(pod))

    async def report(self, pod: Pod, phase: str, *, ready: bool, code: int | None = None) -> None:
        now = timestamp(self._clock.time())
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": now}],
        }
        if code is not None:
            ended = {"exitCode": code, "finishedAt": now}
            names = [container.name for container in pod.spec.containers]
            status["containerStatuses"] = [
                {
                    "name": n,
                    "image": "",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"terminated": ended},
                }
                for n in names
            ]
        await self._client.patch(Pod, pod.metadata.name, {"status": status}, NAMESPACE, subresource="status")

    async def finish(self, pod: Pod, code: int = 0) -> None:
        await self.report(pod, "Failed" if code else "Succeeded", ready=False, code=code)

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for delta in deltas:
            if delta.new is not None:
                self._controller.queue.add(key_of(delta.new))

    async def _play(self, key: Key) -> None:
        pod = self.pods.get(*key)
        try:
            if pod is not None:
                await self._advance(pod)
        except (NotFound, Conflict):
            return  # somebody deleted it

    async def _advance(self, pod: Pod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        if pod.metadata.deletionTimestamp is not None:
            if not self.lingers(pod):
                await self._client.delete(Pod, name, namespace, uid=pod.metadata.uid, grace=0)
        elif not pod.spec.nodeName:
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": _node_of(pod)}}
            await self._client.create(Pod, binding, namespace=namespace, name=name, subresource="binding")
        elif pod.status.phase == "Pending" and not self.holds(pod):
            await self.report(pod, "Running", ready=True)


def _node_of(pod: Pod) -> str:
    affinity = pod.spec.affinity and pod.spec.affinity.nodeAffinity
    required = affinity and affinity.requiredDuringSchedulingIgnoredDuringExecution
    for term in required.nodeSelectorTerms if required else ():
        for requirement in term.matchFields:
            return requirement.values[0]
    return NODE


@pytest.fixture(autouse=True)
async def namespace(client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": NAMESPACE}})


@pytest.fixture
async def kubelets(client: Client) -> AsyncIterator[Kubelets]:
    player = Kubelets(client)
    task = asyncio.create_task(player.run())
    await player.pods.synced()
    yield player
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def template(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "env": [{"name": "A", "value": spec.pop("value", "1")}]}
    return {"metadata": {"labels": labels or {"app": "web"}}, "spec": {"containers": [container], **spec}}


async def pods(client: Client, labels: str = "") -> list[Pod]:
    return list((await client.list(Pod, NAMESPACE, labels=labels)).items)


async def events(client: Client, reason: str) -> list[str]:
    """The messages of events with a reason; they are written in the background, so wait for them."""
    return sorted(e.message for e in (await client.list(Event, NAMESPACE)).items if e.reason == reason)


async def told(client: Client, reason: str) -> int:
    return len(await events(client, reason))


async def becomes(read: Callable[[], Awaitable[Any]], expected: Any) -> None:
    """Wait until reading gives what is expected; says what it was otherwise."""
    last: Any = None

    async def there() -> bool:
        nonlocal last
        last = await read()
        return bool(last == expected)

    try:
        await eventually(there)
    except AssertionError:
        raise AssertionError(f"expected {expected}, got {last}") from None
