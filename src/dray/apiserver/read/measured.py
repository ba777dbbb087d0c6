"""`metrics.k8s.io`: current resource usage of nodes and pods, requested from the nodes on demand.

Nodes report counters of processor time (`/metrics/resource`), so a rate needs two samples: an earlier one, or one
taken a second before. Answers have the time and the window of the measurement. Nodes that report nothing, such as
simulated ones, are omitted. Nothing is stored.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from dray.api.errors import ApiError, not_found
from dray.api.selectors import labels
from dray.api.selectors.fields import parse_fields
from dray.api.times import timestamp
from dray.api.types.core import Node, Pod
from dray.api.wire import Tree
from dray.apiserver.read.reader import Reader, many, one
from dray.apiserver.request import Answer, Request
from dray.background.thread import in_thread
from dray.background.turns import batched

FIRST_WINDOW = 1.0  # seconds between the first two samples of a node
WINDOW = 15.0  # maximum age of the earlier sample before it is replaced
AT_ONCE = 16  # nodes that are requested concurrently
AT_A_TIME = 1000  # objects processed in one turn of the event loop
PATH = "metrics/resource"

Scrape = Callable[[str, str], Awaitable[str]]
"""Called with (node, path); returns the node's text. Raises ApiError if the node does not answer."""
Name = tuple[str, str, str]  # namespace, pod, container


class Amount(NamedTuple):
    """Resource usage: processor seconds, bytes of memory, and the start time of the container."""

    cpu: float  # seconds since the start
    memory: float
    since: float = 0.0


class Look(NamedTuple):
    """Sample of a node and its containers at one time."""

    at: float
    node: Amount
    containers: Mapping[Name, Amount]


class Measured:
    """Answers requests for `metrics.k8s.io`."""

    def __init__(self, reader: Reader, scrape: Scrape) -> None:
        self._reader = reader
        self._scrape = scrape
        self._looks: dict[str, tuple[Look, Look]] = {}
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._limit = asyncio.Semaphore(AT_ONCE)

    async def answer(self, request: Request) -> Answer:
        """Return NodeMetrics or PodMetrics for a get or list. Raises NotFound if a get finds nothing."""
        trees = await (self._pods(request) if request.resource.namespaced else self._nodes(request))
        if request.verb == "get":
            if not trees:
                raise not_found(request.resource, request.name)
            return Answer(tree=trees[0])
        head = {"kind": request.resource.list_kind, "apiVersion": request.resource.api_version(), "metadata": {}}
        return Answer(tree={**head, "items": trees})

    async def _nodes(self, request: Request) -> list[Tree]:
        """Return NodeMetrics of the selected nodes."""
        found = await _wanted(request, many(self._reader, Node))
        looks = await self._look_at({node.metadata.name for node in found})
        return [_node(request, node, *looks[node.metadata.name]) for node in found if node.metadata.name in looks]

    async def _pods(self, request: Request) -> list[Tree]:
        """Return PodMetrics of the selected pods that have measured containers."""
        found = await _wanted(request, many(self._reader, Pod, request.namespace))
        looks = await self._look_at({pod.spec.nodeName for pod in found if pod.spec.nodeName})
        trees = [_pod(request, pod, *looks[pod.spec.nodeName]) for pod in found if pod.spec.nodeName in looks]
        return [tree for tree in trees if tree["containers"]]

    async def _look_at(self, nodes: Iterable[str]) -> dict[str, tuple[Look, Look]]:
        """Return two samples (earlier, later) of each node, by name. Nodes that report no metrics are left out."""
        names = sorted(nodes)
        found = await asyncio.gather(*map(self._two_looks, names))
        return {name: looks for name, looks in zip(names, found, strict=True) if looks is not None}

    async def _two_looks(self, name: str) -> tuple[Look, Look] | None:
        """Return an earlier and a later sample of a node.

        Returns None if the node does not exist, has no kubelet port, or cannot be asked.
        """
        node = one(self._reader, Node, "", name)
        if node is None or not node.status.daemonEndpoints.kubeletEndpoint.Port:
            self._looks.pop(name, None)
            return None
        async with self._asking[name], self._limit:
            try:
                return await self._compared(name)
            except ApiError:
                self._looks.pop(name, None)
                return None

    async def _compared(self, name: str) -> tuple[Look, Look]:
        """Return an earlier and a new sample of a node, or the cached pair if it is less than a second old.

        The first call takes the earlier sample, waits for a second and takes the new one. Raises ApiError if the node
        cannot be asked.
        """
        kept = self._looks.get(name)
        if kept is None:
            before = await self._look(name)
            await asyncio.sleep(FIRST_WINDOW)
        elif time.time() - kept[1].at < FIRST_WINDOW:
            return kept
        else:
            before = kept[1] if kept[1].at - kept[0].at >= WINDOW else kept[0]
        looks = self._looks[name] = before, await self._look(name)
        return looks

    async def _look(self, name: str) -> Look:
        """Request a node's metrics. Returns a new sample of the node and its containers."""
        text = await self._scrape(name, PATH)
        return await in_thread("", read_look, text, time.time())


def read_look(text: str, now: float) -> Look:
    """Return the sample in a text of metrics. An invalid text gives an empty sample."""
    from prometheus_client.parser import (
        text_string_to_metric_families,
    )  # late: takes long to import, and few clients need it

    values: dict[str, dict[Name, float]] = defaultdict(dict)
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                given = sample.labels
                key = given.get("namespace", ""), given.get("pod", ""), given.get("container", "")
                values[sample.name][key] = sample.value
    except ValueError:
        values.clear()
    memory, begun = values["container_memory_working_set_bytes"], values["container_start_time_seconds"]
    containers = {
        name: Amount(cpu, memory.get(name, 0.0), begun.get(name, 0.0))
        for name, cpu in values["container_cpu_usage_seconds_total"].items()
    }
    whole = ("", "", "")
    cpu = values["node_cpu_usage_seconds_total"].get(whole, 0.0)
    return Look(now, Amount(cpu, values["node_memory_working_set_bytes"].get(whole, 0.0)), containers)


async def _wanted(request: Request, objects: Iterable[Any]) -> list[Any]:
    """Return the objects that a request selects, yielding to other work in between."""
    options = request.options
    chosen = labels.parse(options.label_selector)
    named = parse_fields(request.resource, options.field_selector)
    found = []
    for some in batched([*objects], AT_A_TIME):
        found += [
            obj
            for obj in some
            if request.name in ("", obj.metadata.name) and chosen.matches(obj.metadata.labels) and named.matches(obj)
        ]
        await asyncio.sleep(0)
    return found


def _head(request: Request, obj: Node | Pod, before: Look, after: Look) -> Tree:
    """Return the common fields of NodeMetrics and PodMetrics: metadata, time and window."""
    meta = obj.metadata
    place = {"namespace": meta.namespace} if meta.namespace else {}
    named = {"name": meta.name, **place, "creationTimestamp": timestamp(after.at)}
    return {
        "kind": request.resource.kind,
        "apiVersion": request.resource.api_version(),
        "metadata": named | ({"labels": dict(meta.labels)} if meta.labels else {}),
        "timestamp": timestamp(after.at),
        "window": f"{after.at - before.at:.3f}s",
    }


def _node(request: Request, node: Node, before: Look, after: Look) -> Tree:
    """Return the NodeMetrics of a node from two samples."""
    return {**_head(request, node, before, after), "usage": _usage(before.node, before.at, after.node, after.at)}


def _pod(request: Request, pod: Pod, before: Look, after: Look) -> Tree:
    """Return the PodMetrics of a pod from two samples. Containers that are not in the later sample are left out."""
    meta, containers = pod.metadata, []
    for container in pod.spec.containers:
        name = meta.namespace, meta.name, container.name
        now, then, since = after.containers.get(name), before.containers.get(name), before.at
        if now is None:
            continue
        if then is None or now.since > before.at:  # started between the two samples
            then, since = Amount(0.0, 0.0), max(now.since, before.at)
        containers.append({"name": container.name, "usage": _usage(then, since, now, after.at)})
    return {**_head(request, pod, before, after), "containers": containers}


def _usage(then: Amount, since: float, now: Amount, at: float) -> dict[str, str]:
    """Return processor and memory usage as quantities, in nanocores and Ki.

    `then` was measured at time `since`, `now` at time `at`, in seconds since the epoch. Processor usage is the
    average between them.
    """
    cores = max(0.0, now.cpu - then.cpu) / max(at - since, 1e-3)
    return {"cpu": f"{round(cores * 1e9)}n", "memory": f"{round(now.memory / 1024)}Ki"}
