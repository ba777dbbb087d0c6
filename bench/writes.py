"""What requests cost: microseconds of processor time, in one process, without a socket.

Each figure is the least of a few rounds, so that a busy machine disturbs little. The HTTP figures call the application
as the HTTP server would, and leave out sockets and TLS. The last figure is a pod on its whole way to a node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvloop
from msgspec.structs import replace

from dray.api.types.core import Event, Node, Pod, PodResourceClaimStatus
from dray.api.types.resource import ResourceClaim, ResourceClaimStatus, ResourceSlice
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.benchmarks import scheduling
from dray.client import InProcess
from dray.sim.hardware import slice_trees

ROUNDS = 5
OBJECTS = 300  # of each round
PODS = 1500
NAMESPACE = "default"

Step = Callable[[int], Awaitable[Any]]


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_requests())
        runner.run(_scheduled())


async def _requests() -> None:
    running = await Running.open(ServerSettings(authenticate=False))
    try:
        client = InProcess(running.api, ADMIN)
        for what, step in [*_in_process(client), *_over_http(running.http)]:
            print(f"{what:<32} {await _least(step):7.1f} µs", flush=True)
    finally:
        await running.close()


async def _least(step: Step) -> float:
    """The least time of a round, for each call of it."""
    times = []
    for number in range(ROUNDS):
        started = time.process_time()
        for i in range(OBJECTS):
            await step(number * OBJECTS + i)
        times.append(time.process_time() - started)
    return min(times) / OBJECTS * 1e6


def _in_process(client: InProcess) -> list[tuple[str, Step]]:
    """Every request of a pod's life, each step on what the one before it made."""
    sliced = [slice_trees(i, 10, "00000000-0000-0000-0000-000000000000")[0] for i in range(ROUNDS * OBJECTS)]
    return [
        ("create pod", lambda i: client.create(Pod, _pod(i))),
        ("create claim", lambda i: client.create(ResourceClaim, _claim(i))),
        (
            "add finalizer to claim",
            lambda i: client.patch(ResourceClaim, f"c{i}", {"metadata": {"finalizers": ["dray.dev/x"]}}, NAMESPACE),
        ),
        ("create event, as a tree", lambda i: client.create(Event, _event(i))),
        ("create event", lambda i: client.create(Event, msgspec.convert(_event(ROUNDS * OBJECTS + i), Event))),
        ("create node", lambda i: client.create(Node, {"metadata": {"name": f"n{i}"}})),
        ("create slice, ten devices", lambda i: client.create(ResourceSlice, sliced[i])),
        ("patch pod status", lambda i: _patch_pod(client, i)),
        ("patch claim status", lambda i: _patch_claim(client, i)),
        (
            "bind pod",
            lambda i: client.create(Pod, _binding(i), namespace=NAMESPACE, name=f"p{i}", subresource="binding"),
        ),
        ("get pod", lambda i: client.get(Pod, f"p{i}", NAMESPACE)),
        ("delete pod", lambda i: client.delete(Pod, f"p{i}", NAMESPACE, grace=0)),
    ]


def _over_http(application: Any) -> list[tuple[str, Step]]:
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    unplaced = b"fieldSelector=spec.nodeName%3D&limit=10"
    return [
        ("POST pod", lambda i: _ask(application, "POST", pods, msgspec.json.encode(_pod(i)))),
        ("GET pod", lambda i: _ask(application, "GET", f"{pods}/p{i}")),
        ("LIST ten pods by field", lambda i: _ask(application, "GET", pods, query=unplaced)),
        ("DELETE pod", lambda i: _ask(application, "DELETE", f"{pods}/p{i}", query=b"gracePeriodSeconds=0")),
    ]


async def _ask(application: Any, method: str, path: str, body: bytes = b"", query: bytes = b"") -> None:
    headers = [(b"host", b"localhost"), (b"accept", b"application/json"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": headers}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 200) < 300, message

    await application(scope, receive, send)


async def _scheduled() -> None:
    async with scheduling.cluster(500, 10, (scheduling.PLAIN,)) as cluster:
        await cluster.burst(scheduling.PLAIN, 1000)
        started = time.process_time()
        await cluster.burst(scheduling.PLAIN, PODS)
        print(f"{'a pod with a claim, to its node':<32} {(time.process_time() - started) / PODS * 1e6:7.1f} µs")


# What is written


def _pod(i: int) -> dict[str, Any]:
    tree = scheduling.PLAIN.pod(f"p{i}")
    return {"apiVersion": "v1", "kind": "Pod", **tree}


def _claim(i: int) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}", "controller": True}
    return {
        "metadata": {
            "name": f"c{i}",
            "namespace": NAMESPACE,
            "annotations": {"resource.kubernetes.io/pod-claim-name": "d"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [scheduling.one()]}},
    }


def _event(i: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"p{i}.0123456789abcdef", "namespace": NAMESPACE},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": f"p{i}", "uid": f"u{i}"},
        "type": "Normal",
        "reason": "Scheduled",
        "message": f"Successfully assigned default/p{i} to n{i}",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "bench"},
        "reportingComponent": "bench",
    }


def _binding(i: int) -> dict[str, Any]:
    return {"metadata": {"name": f"p{i}", "namespace": NAMESPACE}, "target": {"kind": "Node", "name": f"n{i}"}}


async def _patch_pod(client: InProcess, i: int) -> None:
    pod = await client.get(Pod, f"p{i}", NAMESPACE)
    claims = (PodResourceClaimStatus(name="d", resourceClaimName=f"c{i}"),)
    await client.patch_status(pod, replace(pod.status, resourceClaimStatuses=claims))


async def _patch_claim(client: InProcess, i: int) -> None:
    selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{i}"]}]}
    result = {"request": "r", "driver": "bench.example.com", "pool": f"n{i}", "device": "dev-0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [selector]}}
    status = {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": f"p{i}", "uid": f"u{i}"}]}
    claim = await client.get(ResourceClaim, f"c{i}", NAMESPACE)
    await client.patch_status(claim, msgspec.convert(status, ResourceClaimStatus))
