"""Autoscaling loop: observe the cluster, order nodes for waiting pods, and return nodes that are not needed.

A decision may take seconds, so it runs in a thread on immutable objects. Ordered nodes count until they arrive or
time out; a group that does not deliver is closed for a while (`backoff`). A node is removed in three steps: it is
cordoned, its pods are evicted within their disruption budgets, and then the provider deletes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from dray.api.errors import ApiError, NotFound
from dray.api.gates import FeatureGates
from dray.api.naming import name_of
from dray.api.reasons import wording
from dray.api.types.apps import DaemonSet
from dray.api.types.core import Node, Pod
from dray.api.wire import Wire
from dray.autoscaling.backoff import NodeGroupBackoff
from dray.autoscaling.groups import NodeGroups
from dray.autoscaling.orders import Orders
from dray.autoscaling.planner import plan, sizes_of
from dray.autoscaling.plans import ScaleUpPlan
from dray.autoscaling.provider import GroupStatus, Provider, ProviderError, ProviderNodeName
from dray.autoscaling.scale_down import ScaleDown, scale_down
from dray.autoscaling.upcoming import add_ordered, complete_nodes
from dray.background.thread import in_thread
from dray.client import Client, SharedInformers
from dray.client.events import EventRecorder
from dray.client.informer import Informer
from dray.recordings.recording import TYPES
from dray.sim.cluster import Cluster
from dray.sim.copies import is_daemon

log = logging.getLogger(__name__)

INTERVAL = 5.0


class ScalingView(msgspec.Struct, frozen=True):
    """Input of a decision: objects, groups with their current limits, and ordered nodes."""

    objects: tuple[Wire, ...]
    groups: NodeGroups
    ordered: Mapping[str, int]
    closed: tuple[str, ...]
    leaving: frozenset[str]
    now: float
    gates: FeatureGates


class ScalingDecision(msgspec.Struct, frozen=True):
    """Nodes to add, and nodes not needed. If `is_waiting`, nodes are on their way and the next decision may differ."""

    plan: ScaleUpPlan
    down: ScaleDown = ScaleDown()
    is_waiting: bool = False


def decide(view: ScalingView) -> ScalingDecision:
    """Decide what to add or remove. Removes nothing while nodes must be added or are on their way."""
    daemons = [one for one in view.objects if isinstance(one, DaemonSet)]
    cluster = Cluster([one for one in view.objects if not isinstance(one, DaemonSet)], gates=view.gates)
    coming = complete_nodes(cluster, view.groups, view.now)
    sizes = sizes_of(cluster, view.groups)
    add_ordered(cluster, view.groups, view.ordered, daemons)
    sizes = {name: size + view.ordered.get(name, 0) for name, size in sizes.items()}
    cluster.settle()
    found = plan(cluster, view.groups, sizes=sizes, closed=view.closed, daemon_sets=daemons)
    if found.nodes or coming or any(view.ordered.values()):
        return ScalingDecision(found, is_waiting=True)
    return ScalingDecision(found, scale_down(cluster, view.groups, untouched=view.leaving))


class Autoscaler:
    """Adjusts the nodes of a provider's groups to the needs of a cluster's pods."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        provider: Provider,
        groups: NodeGroups,
        *,
        gates: FeatureGates = FeatureGates(),  # noqa: B008 (immutable)
        interval: float = INTERVAL,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        types: tuple[type[Any], ...] = (*TYPES, DaemonSet)
        self._informers: dict[type[Any], Informer[Any]] = {type_: informers.informer(type_) for type_ in types}
        self._provider = provider
        self._groups = groups
        self._gates = gates
        self._interval = interval
        self._now = now
        self._recorder = EventRecorder(client, "cluster-autoscaler")
        self._backoff = NodeGroupBackoff(groups.settings.backoffSeconds)
        self._orders = Orders(groups.settings.provisionSeconds)
        self._unneeded: dict[str, float] = {}  # node → time since when the node is not needed
        self._leaving: dict[str, str] = {}  # node being drained → its group
        self._removed: set[str] = set()  # nodes deleted by the provider that informers may still contain
        self._told: set[str] = set()  # pods with an event that no node helps
        self._last: tuple[object, ScalingDecision] | None = None  # last input and its decision

    async def run(self) -> None:
        """Run steps at intervals until cancelled. API and provider errors are logged."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._recorder.run())
            while True:
                try:
                    await self.step()
                except (ApiError, ProviderError) as error:
                    log.warning("autoscaling: %s; trying again in %g s", error, self._interval)
                await asyncio.sleep(self._interval)

    async def step(self) -> ScalingDecision:
        """Observe, decide and act once. Returns the decision.

        Raises ProviderError or ApiError if a call to the provider or the API server fails.
        """
        now = self._now()
        statuses = {status.name: status for status in await self._provider.groups()}
        groups = self._known(statuses)
        ordered = await self._look_after_orders(groups, statuses, now)
        objects = tuple([one for informer in self._informers.values() for one in informer.list()])
        closed = tuple(self._backoff.closed(now))
        view = ScalingView(objects, groups, ordered, closed, frozenset(self._leaving), now, self._gates)
        decision = await self._decided(view)
        self._tell(decision.plan, statuses)
        await self._grow(decision.plan, now)
        await self._shrink(decision, groups, now)
        return decision

    async def _decided(self, view: ScalingView) -> ScalingDecision:
        """Return the decision for a view; the last decision if nothing has changed and nothing is on its way."""
        versions = tuple(informer.resource_version for informer in self._informers.values())
        seen = versions, view.groups, view.ordered, view.closed, view.leaving
        if self._last is None or self._last[0] != seen or self._last[1].is_waiting:
            self._last = None
            decision = await in_thread("autoscaling", decide, view)
            self._last = seen, decision
        return self._last[1]

    # -- adding nodes

    def _known(self, statuses: Mapping[str, GroupStatus]) -> NodeGroups:
        """Return the groups that the provider has, with its limits.

        Other groups are left out. The limits are the minimum and maximum.
        """
        found = [
            msgspec.structs.replace(group, min=statuses[group.name].min, max=statuses[group.name].max)
            for group in self._groups.groups
            if group.name in statuses
        ]
        return msgspec.structs.replace(self._groups, groups=tuple(found))

    async def _look_after_orders(
        self, groups: NodeGroups, statuses: Mapping[str, GroupStatus], now: float
    ) -> dict[str, int]:
        """Check orders of all groups, cancel failed ones and close their groups.

        Returns the number of ordered nodes by group.
        """
        ordered: dict[str, int] = {}
        for group in groups.groups:
            there = [node for node in self._nodes() if group.has(node)]
            found = self._orders.judge(statuses[group.name], there, now)
            if found.delivered:
                self._backoff.succeed(group.name)
            if found.failed:
                pause = self._backoff.fail(group.name, now)
                log.warning("group %s: %s; it is left alone for %g s", group.name, found.why, pause)
                await self._cancel(group.name, found.failed)
            ordered[group.name] = found.open
        return ordered

    async def _cancel(self, group: str, instances: Iterable[str]) -> None:
        """Delete failed instances. Only logs errors, so that other groups continue.

        `instances` are provider IDs.
        """
        try:
            await self._provider.delete(group, [ProviderNodeName("", one) for one in instances])
        except ProviderError as error:
            log.warning("group %s: what did not come cannot be handed back: %s", group, error)

    async def _grow(self, found: ScaleUpPlan, now: float) -> None:
        """Order the planned nodes. Closes a group for a while if its order fails."""
        for group, count in found.increases.items():
            try:
                await self._provider.increase(group, count)
                self._orders.placed(group, now)
            except ProviderError as error:
                pause = self._backoff.fail(group, now)
                log.warning("group %s: %s; it is left alone for %g s", group, error, pause)

    def _tell(self, found: ScaleUpPlan, statuses: Mapping[str, GroupStatus]) -> None:
        """Record events on pods: which group scales up for them, or that no node helps."""
        pods = {name_of(pod): pod for pod in self._informers[Pod].list()}
        for node in found.nodes:
            for one in node.pods:
                if one.pod in pods:
                    now = statuses[node.group].target
                    text = wording.scales_up(node.group, now, now + found.increases[node.group])
                    self._recorder.record(pods[one.pod], "TriggeredScaleUp", text)
        unhelped = {name for one in found.unhelped for name in one.pods}
        for name in unhelped - self._told:
            if name in pods:
                self._recorder.record(pods[name], "NotTriggerScaleUp", wording.scales_nothing())
        self._told = unhelped

    # -- removing nodes

    async def _shrink(self, decision: ScalingDecision, groups: NodeGroups, now: float) -> None:
        """Continue the removal of nodes that were unneeded for long enough. Uncordons a node if its removal fails."""
        self._removed &= {node.metadata.name for node in self._nodes()}
        removals = {one.node: one.group for one in decision.down.removals if one.node not in self._removed}
        self._unneeded = {node: self._unneeded.get(node, now) for node in removals}
        for node, since in self._unneeded.items():
            if now - since >= groups.settings.unneededSeconds:
                self._leaving[node] = removals[node]
        for name, group in [*self._leaving.items()]:
            try:
                await self._release(name, group)
            except (ApiError, ProviderError) as error:
                log.warning("node %s stays: %s", name, error)
                self._leaving.pop(name, None)
                with contextlib.suppress(NotFound):
                    await self._close(name, closed=False)

    async def _release(self, name: str, group: str) -> None:
        """Take the next step in the removal of a node: cordon, evict pods, or delete.

        A node that is gone is forgotten. It is deleted only when all pods except daemons have left.
        """
        node = self._informers[Node].get("", name)
        if node is None:
            self._leaving.pop(name, None)
            return
        if not node.spec.unschedulable:
            await self._close(name, closed=True)
        pods = [pod for pod in self._informers[Pod].list() if pod.spec.nodeName == name and not is_daemon(pod)]
        for pod in pods:
            if pod.metadata.deletionTimestamp is None:
                await self._evict(pod)
        if not pods:
            await self._provider.delete(group, [ProviderNodeName(name, node.spec.providerID)])
            self._leaving.pop(name, None)
            self._removed.add(name)
            log.info("node %s of group %s is removed", name, group)

    async def _close(self, name: str, *, closed: bool) -> None:
        """Cordon or uncordon a node."""
        await self._client.patch(Node, name, {"spec": {"unschedulable": closed or None}})

    async def _evict(self, pod: Pod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        await self._client.create(Pod, body, namespace=namespace, name=name, subresource="eviction")

    def _nodes(self) -> Iterable[Any]:
        return self._informers[Node].list()
