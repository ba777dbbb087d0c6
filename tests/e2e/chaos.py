"""Random mischief in a cluster: pods that come, end and are deleted, devices that change, parts that stop and start.

The mischief-maker works through the API only; whoever runs it decides how parts are killed. Afterwards the books must
balance: what should run runs, and when everything is deleted, nothing is left.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from dray.api.errors import AlreadyExists, Conflict, NotFound, ServiceUnavailable
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.client import Client
from dray.node.played import EXIT_CODE, SECONDS
from dray.sim.hardware import CLASS, DRIVER, node_name, slice_trees
from tests.e2e.objects import NAMESPACE, Tree, alternatives, claim, pod, request, template

ROOT = "resource.kubernetes.io/pcieRoot"
BIG = f'device.attributes["{DRIVER}"].model == "h100"'
TEMPLATES: tuple[Tree, ...] = (
    template("one"),
    template("pair", request(count=2), constraints=[{"requests": ["r"], "matchAttribute": ROOT}]),
    template("best", alternatives(request("big", selector=BIG), request("any", CLASS))),
)
SHARED = ("shared-0", "shared-1", "shared-2")


def size(default: str) -> tuple[int, int]:
    """Pods and nodes: as the environment asks (`DRAY_CHAOS=10000x200`), or as many as a test has time for."""
    pods, _, nodes = os.environ.get("DRAY_CHAOS", default).partition("x")
    return int(pods), int(nodes)


@dataclass
class Chaos:
    """Makes `pods` pods in a cluster of `nodes` nodes with `devices` devices each, and trouble."""

    client: Client
    pods: int
    nodes: int
    devices: int
    random: random.Random
    kept: list[str] = field(default_factory=list)  # pods that nobody deletes: they must run in the end
    doomed: list[str] = field(default_factory=list)  # pods that will be deleted if they do not end before
    deeds: Counter[str] = field(default_factory=Counter)  # what was done, by its name
    _over: bool = False

    async def run(self, disturb: Callable[[], Awaitable[None]] | None = None, pause: float = 0.0) -> None:
        """Create all pods while the mischief goes on; then make the devices whole again."""
        for tree in TEMPLATES:
            await self.client.create(ResourceClaimTemplate, tree)
        for name in SHARED:
            await self.client.create(ResourceClaim, claim(name))
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(self._mischief(pause))
            if disturb is not None:
                group.create_task(self._disturbance(disturb))
            for number in range(self.pods):
                tree, fate = self._pod(number)
                await self._insist(partial(self.client.create, Pod, tree))
                fate.append(tree["metadata"]["name"])
                await asyncio.sleep(pause)
            self._over = True
        await self._make_whole()
        for name in self.doomed:
            await self._delete_pod(name)

    def _pod(self, number: int) -> tuple[Tree, list[str]]:
        """A pod, and the list that it belongs to."""
        name, dice = f"p{number}", self.random.random()
        uses: Tree = {"templates": [self.random.choice(TEMPLATES)["metadata"]["name"]]}
        if dice < 0.1:
            uses = {"claims": [self.random.choice(SHARED)]}
        elif dice < 0.2:
            uses["claims"] = [self.random.choice(SHARED)]
        elif dice < 0.25:
            uses = {}
        room = self.nodes * self.devices // 8
        if dice >= 0.2 and len(self.kept) < room and self.random.random() < 0.2:
            return pod(name, **uses), self.kept
        ends = {SECONDS: f"{self.random.uniform(0, 0.5):.2f}", EXIT_CODE: self.random.choice("01")}
        policy = "Never" if self.random.random() < 0.9 else "Always"
        annotations = ends if self.random.random() < 0.7 else {}
        return pod(name, annotations=annotations, restartPolicy=policy, **uses), self.doomed

    async def _mischief(self, pause: float) -> None:
        actions = [self._delete_one] * 4 + [self._change_slice, self._withdraw_slice]
        while not self._over:
            await self._insist(self.random.choice(actions))
            await asyncio.sleep(self.random.uniform(0, 0.02 + 4 * pause))

    async def _disturbance(self, disturb: Callable[[], Awaitable[None]]) -> None:
        while not self._over:
            await disturb()
            self.deeds["disturbances"] += 1

    async def _insist(self, action: Callable[[], Awaitable[object]]) -> None:
        """Do it until the server has done it; what somebody else did meanwhile is no trouble."""
        while True:
            try:
                await action()
            except (AlreadyExists, NotFound):
                return
            except (Conflict, ServiceUnavailable):
                await asyncio.sleep(0.1)
            else:
                return

    async def _delete_one(self) -> None:
        if self.doomed:
            self.deeds["deletions"] += 1
            await self._delete_pod(self.doomed.pop(self.random.randrange(len(self.doomed))))

    async def _delete_pod(self, name: str) -> None:
        grace = 0 if self.random.random() < 0.3 else None
        await self._insist(lambda: self.client.delete(Pod, name, NAMESPACE, grace=grace))

    async def _change_slice(self) -> None:
        """A device breaks: a new generation of the pool without it."""
        name = f"{node_name(self.random.randrange(self.nodes))}-{DRIVER}-0"
        found = await self.client.get(ResourceSlice, name)
        names = [device.name for device in found.spec.devices]
        tree = slice_trees(0, self.devices, "")[0]["spec"]["devices"]
        left = [device for device in tree if device["name"] in names[: max(1, len(names) - 1)]]
        patch = {"spec": {"devices": left, "pool": {"generation": found.spec.pool.generation + 1}}}
        await self.client.patch(ResourceSlice, name, patch)
        self.deeds["slices changed"] += 1

    async def _withdraw_slice(self) -> None:
        number = self.random.randrange(self.nodes)
        await self.client.delete(ResourceSlice, f"{node_name(number)}-{DRIVER}-0")
        await asyncio.sleep(self.random.uniform(0, 0.02))
        await self._insist(partial(self._publish, number))
        self.deeds["slices withdrawn"] += 1

    async def _make_whole(self) -> None:
        for number in range(self.nodes):
            await self._insist(partial(self._republish, number))

    async def _republish(self, number: int) -> None:
        with suppress(NotFound):
            await self.client.delete(ResourceSlice, f"{node_name(number)}-{DRIVER}-0")
        await self._publish(number)

    async def _publish(self, number: int) -> None:
        node = await self.client.get(Node, node_name(number))
        for tree in slice_trees(number, self.devices, node.metadata.uid):
            await self.client.create(ResourceSlice, tree)

    # -- the books

    def summary(self) -> str:
        """What was done, after making sure that there was mischief of each kind."""
        assert self.kept
        assert self.deeds["deletions"] > self.pods // 20
        assert self.deeds.keys() >= {"disturbances", "slices changed", "slices withdrawn"}
        done = ", ".join(f"{number} {deed}" for deed, number in sorted(self.deeds.items()))
        return f"{self.pods} pods on {self.nodes} nodes: {done}"

    async def settled(self, seconds: float) -> None:
        """Wait until everything that should run runs; delete it, and wait until nothing is left."""
        for look in (self.unsettled, self.left_over):
            deadline = time.monotonic() + seconds
            while found := await look():
                assert time.monotonic() < deadline, "\n".join([f"not so after {seconds:g} s:", *found[:20]])
                await asyncio.sleep(0.01 + len(found) / 1000)  # looking is work for the server
        for name in SHARED:
            await self.client.delete(ResourceClaim, name, NAMESPACE)

    async def unsettled(self) -> list[str]:
        """What is not as it should be once the mischief is over: pods that should run or be gone."""
        found: list[str] = []
        current = {one.metadata.name: one for one in (await self.client.list(Pod, NAMESPACE)).items}
        found += [f"{name} is missing" for name in self.kept if name not in current]
        for name, one in current.items():
            if name not in self.kept:
                found.append(
                    f"{name} still exists: {one.status.phase} on {one.spec.nodeName or 'no node'}, deleted at "
                    f"{one.metadata.deletionTimestamp}, finalizers {one.metadata.finalizers}"
                )
            elif one.status.phase != "Running":
                said = [c.message for c in one.status.conditions if c.type == "PodScheduled"]
                found.append(f"{name} is {one.status.phase} on {one.spec.nodeName or 'no node'}: {said}")
        return found

    async def left_over(self) -> list[str]:
        """Delete what is left; what does not go away is a leak."""
        for name in self.kept:
            await self._delete_pod(name)
        self.kept.clear()
        left = [f"pod {one.metadata.name}" for one in (await self.client.list(Pod, NAMESPACE)).items]
        for one in (await self.client.list(ResourceClaim, NAMESPACE)).items if not left else ():
            if one.metadata.name not in SHARED:
                left.append(f"claim {one.metadata.name} {one.status} {one.metadata.finalizers}")
            elif one.status.reservedFor:
                left.append(f"reservation of {one.metadata.name}: {one.status.reservedFor}")
        return left
