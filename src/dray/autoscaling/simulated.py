"""Provider of simulated nodes, which are registered through the API and simulated like those of `dray up --nodes`.

A node appears `start_seconds` after it was ordered and has its devices `publish_seconds` later. Open orders are lost
when the process ends; registered nodes are adopted at the next start. Left out: deciding what to order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from dray.api.errors import ApiError
from dray.api.simulated import SIMULATED
from dray.api.times import timestamp
from dray.api.types.core import Node
from dray.api.wire import Tree, tree_of
from dray.autoscaling.groups import NodeGroup, NodeGroups
from dray.autoscaling.provider import GroupStatus, Instance, InstanceState, ProviderError, ProviderNodeName
from dray.sim import hardware

log = logging.getLogger(__name__)

SCHEME = "dray://"


class Fleet(Protocol):
    """Interface to simulated nodes (`dray.sim.nodes.SimulatedNodes`)."""

    async def add(self, trees: Sequence[Tree]) -> None: ...

    def adopt(self, name: str) -> int: ...

    async def remove(self, name: str) -> None: ...


class SimulatedProvider:
    """Groups of simulated nodes. `run` must be running for ordered nodes to arrive."""

    def __init__(self, fleet: Fleet, groups: NodeGroups) -> None:
        self._fleet = fleet
        self._groups = {group.name: group for group in groups.groups}
        self._members: dict[str, dict[str, InstanceState]] = {name: {} for name in self._groups}
        self._errors: dict[str, str] = {}  # errors of instances that failed to start
        self._orders: asyncio.Queue[tuple[NodeGroup, str]] = asyncio.Queue()

    def adopt(self, nodes: Iterable[Node]) -> None:
        """Adopt registered nodes that belong to the groups.

        They count as running.
        """
        for node in nodes:
            for name, group in self._groups.items():
                if group.has(node):
                    self._members[name][node.metadata.name] = InstanceState.RUNNING
                    self._fleet.adopt(node.metadata.name)

    async def run(self) -> None:
        """Start ordered nodes, each after its delay, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._start(*await self._orders.get()))

    async def groups(self) -> list[GroupStatus]:
        return [self._status(group) for group in self._groups.values()]

    async def increase(self, group: str, count: int) -> None:
        known = self._known(group)
        members = self._members[group]
        if count < 1:
            raise ProviderError(f"group {group}: expected a number from 1, got {count}")
        if len(members) + count > known.max:
            raise ProviderError(
                f"group {group}: {len(members)} and {count} more would be above its maximum {known.max}"
            )
        if known.available is not None and len(members) + count > known.available:
            raise ProviderError(f"group {group}: only {known.available} nodes are available")
        for _ in range(count):
            name = self._free_name(group)
            members[name] = InstanceState.CREATING
            self._orders.put_nowait((known, name))

    async def delete(self, group: str, nodes: Sequence[ProviderNodeName]) -> None:
        self._known(group)
        names = [node.provider_id.removeprefix(SCHEME) for node in nodes]
        for name in names:
            if name not in self._members[group]:
                raise ProviderError(f"group {group} has no node {name}")
        there = {name for name, state in self._members[group].items() if state is InstanceState.RUNNING}
        if there & {*names} and len(there - {*names}) < self._groups[group].min:
            raise ProviderError(f"group {group} would be below its minimum {self._groups[group].min}")
        for name in names:
            self._members[group][name] = InstanceState.DELETING
            try:
                await self._fleet.remove(name)
            except ApiError as error:
                raise ProviderError(f"node {name}: {error}") from error
            self._members[group].pop(name, None)
            self._errors.pop(name, None)

    async def _start(self, group: NodeGroup, name: str) -> None:
        """Register an ordered node after its delay, then its slices. Records an error if registration fails."""
        await asyncio.sleep(group.start_seconds)
        try:
            node, *slices = [tree_of(one) for one in group.template.objects(name)]
            await self._step(group, name, [_fresh(node, name)])
            await asyncio.sleep(group.publish_seconds)
            await self._step(group, name, slices)
        except ApiError as error:
            log.warning("simulated node %s does not come: %s", name, error)
            self._errors[name] = str(error)
        if self._members[group.name].get(name) is InstanceState.CREATING and name not in self._errors:
            self._members[group.name][name] = InstanceState.RUNNING

    async def _step(self, group: NodeGroup, name: str, trees: Sequence[Tree]) -> None:
        """Register objects of a node, unless it was deleted meanwhile."""
        if self._members[group.name].get(name) is InstanceState.CREATING:
            await self._fleet.add(trees)

    def _status(self, group: NodeGroup) -> GroupStatus:
        members = self._members[group.name]
        instances = [Instance(SCHEME + name, state, self._errors.get(name, "")) for name, state in members.items()]
        return GroupStatus(group.name, group.min, group.max, len(members), tuple(instances))

    def _known(self, name: str) -> NodeGroup:
        if name not in self._groups:
            raise ProviderError(f"there is no group {name}")
        return self._groups[name]

    def _free_name(self, group: str) -> str:
        taken = {name for members in self._members.values() for name in members}
        return next(name for number in range(len(taken) + 1) if (name := f"{group}-{number}") not in taken)


def _fresh(node: Tree, name: str) -> Tree:
    """Return a node as it registers itself: ready, with a provider ID."""
    spec = {**node.get("spec", {}), "providerID": SCHEME + name}
    labels = {**node["metadata"].get("labels", {}), SIMULATED: "true"}
    status = {**node["status"], "conditions": hardware.conditions(timestamp(time.time()))}
    return {**node, "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
