"""Benchmark of requests sent by the scheduler per pod, over HTTP to an API server in another process.

Nodes, devices, claims and pods exist before the scheduler starts, and no other client writes, so every request
belongs to a decision. Lists and watches are not counted, because their number does not depend on the number of pods.
Left out: starting the server.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dray.api.gates import FeatureGates
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.client.config import Config
from dray.client.http import Http, HttpRequest, ServerAnswer
from dray.scheduler import Scheduler
from dray.sim.hardware import CLASS
from dray.sim.nodes import register

NAMESPACE = "default"
DEVICES_A_NODE = 10
_AT_ONCE = 20  # objects created concurrently
_LOOK_SECONDS = 0.1
_QUIET_LOOKS = 10  # checks without a new request after which all writes are assumed done
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}

REQUIRED: Mapping[str, int] = {
    "patch resourceclaims": 1,  # the finalizer, before the allocation
    "patch resourceclaims/status": 1,  # allocation and reservation
    "create pods/binding": 1,
    "create events": 1,
}
"""Requests for a pod with one claim that fits at the first attempt."""


class CountingHttp(Http):
    """HTTP client that counts its requests for single objects."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.sent: Counter[str] = Counter()

    async def _exchange(self, request: HttpRequest) -> ServerAnswer:
        name = _request_name(request.method, request.path)
        if name:
            self.sent[name] += 1
        return await super()._exchange(request)


def _request_name(method: str, path: str) -> str:
    """Return verb and resource of a request, such as `create pods/binding`; empty for lists and for other paths."""
    prefix, _, rest = path.partition("/namespaces/")
    words = rest.split("/")[1:] if rest else prefix.split("/")[4 if prefix.startswith("/apis/") else 3 :]
    if not words or (method == "GET" and len(words) == 1):
        return ""
    return f"{_VERBS[method]} {'/'.join((words[0], *words[2:]))}"


@dataclass(frozen=True)
class RequestCount:
    """Requests sent until all pods were bound and all writes were done."""

    pods: int
    seconds: float  # seconds until the last pod was bound
    sent: Mapping[str, int]

    @property
    def surplus(self) -> dict[str, int]:
        """Number of requests beyond the required ones, by kind; missing requests are negative."""
        found = {name: self.sent.get(name, 0) - self.pods * REQUIRED.get(name, 0) for name in {*self.sent, *REQUIRED}}
        return {name: number for name, number in sorted(found.items()) if number}


async def count_requests(config: Config, pods: int) -> RequestCount:
    """Schedule this many pods on an empty server, and count the scheduler's requests."""
    client = CountingHttp(config)
    async with Http(config) as admin, client:
        await register(admin, -(-pods // DEVICES_A_NODE), DEVICES_A_NODE)
        await _create(admin, pods)
        begun = time.perf_counter()
        task = asyncio.create_task(Scheduler(client, FeatureGates()).run())
        try:
            while client.sent["create pods/binding"] < pods and not task.done():  # noqa: ASYNC110 (counts have no event)
                await asyncio.sleep(_LOOK_SECONDS)
            seconds = time.perf_counter() - begun
            await _quiet(client)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        placed = sum(bool(pod.spec.nodeName) for pod in (await admin.list(Pod)).items)
    return RequestCount(placed, seconds, dict(client.sent))


async def _create(client: Http, pods: int) -> None:
    """Create a claim and a pod for each number, several at a time."""
    names = iter(range(pods))

    async def some() -> None:
        for number in names:
            claim, pod = _objects(f"p-{number}")
            await client.create(ResourceClaim, claim)
            await client.create(Pod, pod)

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))


def _objects(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a claim for one device, and a pod that uses it."""
    metadata = {"name": name, "namespace": NAMESPACE}
    request = {"name": "r", "exactly": {"deviceClassName": CLASS}}
    container = {"name": "c", "image": "pause", "resources": {"claims": [{"name": "d"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "d", "resourceClaimName": name}]}
    return {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}, {"metadata": metadata, "spec": spec}


async def _quiet(client: CountingHttp) -> None:
    """Wait until no further requests are sent."""
    looks, before = 0, -1
    while looks < _QUIET_LOOKS:
        await asyncio.sleep(_LOOK_SECONDS)
        now = client.sent.total()
        looks, before = (looks + 1 if now == before else 0), now
