"""EndpointSlices and Endpoints of Services, on a real server."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.core import Endpoints, Namespace, Pod, Service
from dray.api.types.discovery import EndpointSlice
from dray.client import Client
from dray.controllers.endpoints import EndpointController
from tests.controllers.conftest import Start
from tests.controllers.workloads.conftest import becomes

SPEC = {"containers": [{"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}]}


@pytest.fixture(autouse=True)
async def namespace(client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]}
    await client.create(Service, {"metadata": {"name": "svc"}, "spec": spec}, namespace="ns")


async def add(client: Client, name: str, address: str, ready: bool = True) -> None:
    await client.create(Pod, {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": SPEC}, namespace="ns")
    condition = {"type": "Ready", "status": str(ready)}
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]}
    await client.patch(Pod, name, {"status": status}, "ns", subresource="status")


async def slices(client: Client) -> list[Any]:
    found = (await client.list(EndpointSlice, "ns")).items
    return [
        (
            [(e.addresses[0], bool(e.conditions.ready)) for e in one.endpoints or () if e.addresses],
            [(port.name, port.port) for port in one.ports or ()],
        )
        for one in found
    ]


async def test_ready_pods_are_endpoints(client: Client, start: Start) -> None:
    await add(client, "a", "10.0.0.1")
    await add(client, "b", "10.0.0.2", ready=False)
    async with start(EndpointController):
        await becomes(lambda: slices(client), [([("10.0.0.1", True), ("10.0.0.2", False)], [("http", 8080)])])
        (one,) = (await client.list(EndpointSlice, "ns")).items
        assert one.metadata.name.startswith("svc-")
        assert one.metadata.labels["kubernetes.io/service-name"] == "svc"
        assert one.metadata.labels["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
        (subset,) = (await client.get(Endpoints, "svc", "ns")).subsets
        assert [a.ip for a in subset.addresses] == ["10.0.0.1"]
        assert [a.ip for a in subset.notReadyAddresses] == ["10.0.0.2"]
        await client.delete(Pod, "a", "ns", grace=0)
        await becomes(lambda: slices(client), [([("10.0.0.2", False)], [("http", 8080)])])


async def test_a_service_without_pods_has_an_empty_slice_and_takes_it_along(client: Client, start: Start) -> None:
    async with start(EndpointController):
        await becomes(lambda: slices(client), [([], [])])
        await client.delete(Service, "svc", "ns")
        await becomes(lambda: slices(client), [])


async def test_a_hundred_to_a_slice(client: Client, start: Start) -> None:
    for number in range(130):
        await add(client, f"p{number:03}", f"10.0.1.{number}")
    async with start(EndpointController):

        async def sizes() -> list[int]:
            return sorted(len(endpoints) for endpoints, _ in await slices(client))

        await becomes(sizes, [30, 100])
