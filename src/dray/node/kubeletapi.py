"""The node's HTTP API in the kubelet's formats: health, pods, and resource usage.

`/pods`, `/metrics/resource` and `/stats/summary` are for the API server, which passes them on to users who may `get
nodes/proxy` and builds `metrics.k8s.io` from them. A runtime that executes nothing reports no container usage. Left
out: access control (`logserver`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from dray.api.times import timestamp
from dray.api.types.core import Pod
from dray.client import Clock
from dray.node.runtime import ContainerAttempt, ContainerKey, Runtime
from dray.node.usage import ContainerUsage, of_machine

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_NANO = 10**9


class KubeletApi:
    """Serves the list and the resource usage of one node's pods."""

    def __init__(self, name: str, runtime: Runtime, pods: Callable[[], Iterable[Pod]], clock: Clock) -> None:
        self._name = name
        self._runtime = runtime
        self._pods = pods
        self._clock = clock
        self._begun = clock.time()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self._healthz),
            web.get("/pods", self._list_pods),
            web.get("/metrics/resource", self._metrics),
            web.get("/stats/summary", self._summary),
        ]

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _list_pods(self, request: web.Request) -> web.Response:
        pods = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [*self._pods()]}
        return web.Response(body=msgspec.json.encode(pods), content_type="application/json")

    async def _metrics(self, request: web.Request) -> web.Response:
        machine, used = await self._measured()
        body = generate_latest(_Collected(_families(machine, used)))
        return web.Response(body=body, headers={"Content-Type": _TEXT})

    async def _summary(self, request: web.Request) -> web.Response:
        machine, used = await self._measured()
        now = timestamp(self._clock.time())
        pods: dict[str, dict[str, Any]] = {}
        for pod, attempt, usage in used:
            meta = pod.metadata
            reference = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
            entry = pods.setdefault(
                meta.uid, {"podRef": reference, "startTime": pod.status.startTime or now, "containers": []}
            )
            started = {"name": attempt.key.container, "startTime": timestamp(attempt.started)}
            entry["containers"].append(started | _statistics(usage, now))
        node = {"nodeName": self._name, "startTime": timestamp(self._begun), **_statistics(machine, now)}
        return web.json_response({"node": node, "pods": [*pods.values()]})

    async def _measured(self) -> tuple[ContainerUsage, list[tuple[Pod, ContainerAttempt, ContainerUsage]]]:
        """Return the resource usage of the machine and of each running container of a pod. Reads files in a thread.

        The second value has pod, attempt and usage of each container whose usage could be measured.
        """
        running: dict[ContainerKey, tuple[Pod, ContainerAttempt]] = {}
        for pod in [*self._pods()]:
            running |= {a.key: (pod, a) for a in self._runtime.attempts(pod.metadata.uid) if a.running}
            await asyncio.sleep(0)  # each call reads files
        machine, used = await asyncio.to_thread(self._measure, [*running])
        return machine, [(*running[key], usage) for key, usage in used.items()]

    def _measure(self, keys: list[ContainerKey]) -> tuple[ContainerUsage, dict[ContainerKey, ContainerUsage]]:
        return of_machine(), self._runtime.usage(keys)


class _Collected:
    """Prometheus collector that returns fixed metric families."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _families(machine: ContainerUsage, used: list[tuple[Pod, ContainerAttempt, ContainerUsage]]) -> list[Metric]:
    names = ("container", "namespace", "pod")
    families: list[Metric] = []

    def family(name: str, help_: str, labels: tuple[str, ...] = ()) -> GaugeMetricFamily:
        made = GaugeMetricFamily(name, help_, labels=labels)
        families.append(made)
        return made

    family("node_cpu_usage_seconds_total", "Processor time of the machine").add_metric((), machine.cpu)
    family("node_memory_working_set_bytes", "Memory in use on the machine").add_metric((), machine.memory)
    cpu = family("container_cpu_usage_seconds_total", "Processor time of the container", names)
    memory = family("container_memory_working_set_bytes", "Resident memory of the container", names)
    begun = family("container_start_time_seconds", "When the container started", names)
    for pod, attempt, usage in used:
        labels = (attempt.key.container, pod.metadata.namespace, pod.metadata.name)
        cpu.add_metric(labels, usage.cpu)
        memory.add_metric(labels, usage.memory)
        begun.add_metric(labels, attempt.started)
    family("resource_scrape_error", "Whether reading these metrics has failed").add_metric((), 0)
    return families


def _statistics(usage: ContainerUsage, now: str) -> dict[str, Any]:
    return {
        "cpu": {"time": now, "usageCoreNanoSeconds": int(usage.cpu * _NANO)},
        "memory": {"time": now, "workingSetBytes": usage.memory, "rssBytes": usage.memory},
    }
