"""The whole loop in real processes: a cluster with two node agents, the example driver on both, and pods with devices."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.client.config import load
from dray.client.http import Http
from dray.node.checkpoint import Checkpoint
from tests import objects
from tests.cli.running import Dray
from tests.waiting import eventually

CLASS = "gpu.example.com"
NODES = ("agent-0", "agent-1")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="dd-") as directory:
        yield Path(directory)


def driver(place: Path, node: str, *more: str) -> Dray:
    root = place / "nodes" / node
    kubeconfig = place / "kubeconfig"
    return Dray(
        "driver", "example", "--node", node, "--root", root, "--kubeconfig", kubeconfig, "--devices", "2", *more
    )


def pod_with_two_devices(name: str, node: str) -> dict[str, Any]:
    """A pod with a device for each of its two containers; they print their environment and wait."""
    containers = [
        {
            "name": claim,
            "image": "none",
            "command": ["/bin/sh", "-c", "env | grep ^GPU_DEVICE; exec sleep 600"],
            "resources": {"claims": [{"name": claim, "request": "gpu"}]},
        }
        for claim in "ab"
    ]
    return objects.pod(
        name,
        containers=containers,
        terminationGracePeriodSeconds=1,
        nodeSelector={"kubernetes.io/hostname": node},
        resourceClaims=[{"name": claim, "resourceClaimTemplateName": "one"} for claim in "ab"],
    )


class Loop:
    """What a user does and sees."""

    def __init__(self, client: Http, place: Path) -> None:
        self.client = client
        self._place = place

    async def prepare(self) -> None:
        async def ready() -> bool:
            return len((await self.client.list(Node)).items) == len(NODES)

        await eventually(ready)
        request = {"name": "gpu", "exactly": {"deviceClassName": CLASS}}
        selector = {"cel": {"expression": f'device.driver == "{CLASS}"'}}
        await self.client.create(DeviceClass, {"metadata": {"name": CLASS}, "spec": {"selectors": [selector]}})
        template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        await self.client.create(ResourceClaimTemplate, template, namespace="default")

    async def slices(self, count: int) -> None:
        async def published() -> bool:
            return len((await self.client.list(ResourceSlice)).items) == count

        await eventually(published)

    async def run(self, tree: dict[str, Any]) -> dict[str, str]:
        """Start a pod; by container what it printed."""
        name = tree["metadata"]["name"]
        await self.client.create(Pod, tree, namespace="default")

        async def running() -> bool:
            return (await self.client.get(Pod, name, "default")).status.phase == "Running"

        await eventually(running)
        return {c: await eventually(lambda c=c: self.log(name, c)) for c in "ab"}

    async def log(self, name: str, container: str) -> str:
        return b"".join([piece async for piece in self.client.log(name, "default", container=container)]).decode()

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.client.delete(Pod, name, "default")

        async def gone() -> bool:
            return not {p.metadata.name for p in (await self.client.list(Pod, "default")).items} & {*names}

        await eventually(gone)

    async def nothing_left(self) -> None:
        async def no_claims() -> bool:
            return not (await self.client.list(ResourceClaim, "default")).items

        await eventually(no_claims)
        for node in NODES:
            root = self._place / "nodes" / node
            assert Checkpoint.open(root / "claims.json")[0].claims == {}
            assert [*(root / "cdi").glob("*.json")] == []
            await eventually(lambda root=root: not [*(root / "pods").glob("*")])  # type: ignore[misc]  # bound


@pytest.mark.slow
async def test_devices_reach_containers_through_restarts_and_updates_of_their_driver(place: Path) -> None:
    arguments = ("--port", "0", "--store", "memory", "--agents", "2", "--runtime", "process")
    with Dray("up", "--dir", place, *arguments):
        async with Http(load(str(place / "kubeconfig"))) as client:
            loop = Loop(client, place)
            await loop.prepare()
            with driver(place, NODES[0]) as first, driver(place, NODES[1]):
                await loop.slices(2)
                # Two containers with different requests get different devices, on either node.
                for node in NODES:
                    said = await loop.run(pod_with_two_devices(f"p-{node}", node))
                    assert sorted(said.values()) == ["GPU_DEVICE_0=gpu-0\n", "GPU_DEVICE_1=gpu-1\n"]
                    assert [*(place / "nodes" / node / "cdi").glob("*.json")]
                # Killed and started again, the driver unprepares what its predecessor prepared.
                first.process.send_signal(signal.SIGKILL)
                await asyncio.to_thread(first.process.wait)
                with driver(place, NODES[0]) as second:
                    await loop.delete("p-agent-0")
                    await loop.slices(2)
                    await loop.run(pod_with_two_devices("again", NODES[0]))
                    # Updated while a pod runs: the new instance takes over before the old one goes.
                    with driver(place, NODES[0], "--instance", "new"):
                        await asyncio.sleep(0.5)
                        assert await asyncio.to_thread(second.stop) == 0
                        await loop.delete("again")
                        await loop.run(pod_with_two_devices("last", NODES[0]))
                        await loop.delete("last", "p-agent-1")
                        await loop.nothing_left()


async def test_extended_resources_reach_exactly_the_containers_that_ask_for_them(place: Path) -> None:
    def asking(name: str, amount: str) -> dict[str, Any]:
        script = "env | grep ^GPU_DEVICE; echo end; [ $0 = i ] || exec sleep 600"
        limits = {"example.com/gpu": amount} if amount else {}
        return {
            "name": name,
            "image": "none",
            "command": ["/bin/sh", "-c", script, name],
            "resources": {"limits": limits},
        }

    tree = {
        "metadata": {"name": "p"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "initContainers": [asking("i", "1")],
            "containers": [asking("a", "2"), asking("b", "")],
        },
    }
    arguments = ("--port", "0", "--store", "memory", "--agents", "2", "--runtime", "process")
    with Dray("up", "--dir", place, *arguments):
        async with Http(load(str(place / "kubeconfig"))) as client:
            loop = Loop(client, place)
            await loop.prepare()
            with driver(place, NODES[0]):
                await loop.slices(1)
                await client.patch(DeviceClass, CLASS, {"spec": {"extendedResourceName": "example.com/gpu"}})
                said = await loop.run(tree)
                assert said == {"a": "GPU_DEVICE_0=gpu-0\nGPU_DEVICE_1=gpu-1\nend\n", "b": "end\n"}
                assert await loop.log("p", "i") == said["a"]  # the request that it shares has both devices
                assert (await client.get(Pod, "p", "default")).spec.nodeName == NODES[0]
                await loop.delete("p")
                await loop.nothing_left()
