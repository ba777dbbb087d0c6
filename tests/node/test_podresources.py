"""The PodResources socket, asked as a monitoring agent asks it: over a real socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from dray.client import Client
from dray.node.podresources import SOCKET
from dray.rpc import podresources_pb2 as messages
from dray.rpc.services import stub
from tests.node.cluster import NAMESPACE, Cluster
from tests.node.conftest import running_agent
from tests.node.driver import NAME, Driver
from tests.waiting import SECONDS, within


async def ask(root: Path, method: str, request: Any) -> Any:
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{root / SOCKET}", options=options) as channel:
        return await getattr(stub(channel, messages), method)(request, timeout=SECONDS)


async def test_devices_of_containers_are_listed_by_claim(
    node_client: Client, cluster: Cluster, driver: Driver, root: Path, clean: None
) -> None:
    async with running_agent(node_client, root):
        await driver.start()
        await within(driver.registered.wait())
        await cluster.claim("c")
        await cluster.pod("with", claims=("c",))
        await cluster.pod("without")
        await cluster.phase("with", "Running")
        await cluster.phase("without", "Running")
        listed = await ask(root, "List", messages.ListPodResourcesRequest())
        found = {pod.name: [one for c in pod.containers for one in c.dynamic_resources] for pod in listed.pod_resources}
        assert found["without"] == []
        [resource] = found["with"]
        assert (resource.claim_name, resource.claim_namespace) == ("c", NAMESPACE)
        [device] = resource.claim_resources
        assert (device.driver_name, device.pool_name, device.device_name) == (NAME, "pool", "gpu-0")
        assert len(device.cdi_devices) == 1

        request = messages.GetPodResourcesRequest(pod_name="with", pod_namespace=NAMESPACE)
        one = await ask(root, "Get", request)
        assert [*one.pod_resources.containers[0].dynamic_resources] == [resource]
        nothing = await ask(root, "GetAllocatableResources", messages.AllocatableResourcesRequest())
        assert not nothing.devices
        with pytest.raises(grpc.aio.AioRpcError, match="not found"):
            await ask(root, "Get", messages.GetPodResourcesRequest(pod_name="no"))
