"""What users of example drivers show first: groups of pods that share a GPU, and claims that are CPUs of their node.

On a node agent the example drivers are processes of their own, as they are on a real node. On a simulated node there are
the devices, but no drivers and no containers.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dray.api.types.apps import Deployment
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.client.config import load
from dray.client.http import Http
from dray.driver.example import CpuDriver
from dray.sim.hardware import slice_tree
from tests import objects
from tests.cli.running import Dray
from tests.waiting import eventually

GATES = (
    "GenericWorkload=true,DRAWorkloadResourceClaims=true,DRANodeAllocatableResources=true,DRAConsumableCapacity=true"
)
SCRIPT = "env | sort; exec sleep 600"


@pytest.fixture(scope="module", params=["agent", "simulated"])
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A cluster of one node with two GPUs and one NUMA node of two CPUs; the path is short, for sockets."""
    with tempfile.TemporaryDirectory(prefix="dd-") as name, ExitStack() as stack:
        directory = Path(name, request.param)
        options = ("--port", "0", "--store", "memory", "--feature-gates", GATES)
        serving = ("--runtime-config", "scheduling.k8s.io/v1beta1=true")
        nodes = (
            ("--agents", "1", "--runtime", "process") if _has_agent(directory) else ("--nodes", "1", "--devices", "2")
        )
        stack.enter_context(Dray("up", "--dir", directory, *options, *serving, *nodes))
        if _has_agent(directory):
            root, kubeconfig = directory / "nodes/agent-0", directory / "kubeconfig"
            for kind, count in (("gpu", "2"), ("cpu", "1")):
                where = ("--node", "agent-0", "--root", root, "--kubeconfig", kubeconfig)
                stack.enter_context(Dray("driver", "example", kind, "--devices", count, *where))
        yield directory


def _has_agent(place: Path) -> bool:
    return place.name == "agent"


@pytest.fixture
async def client(place: Path) -> AsyncIterator[Http]:
    async with Http(load(str(place / "kubeconfig"))) as client:
        yield client


def container(*entries: str) -> dict[str, Any]:
    claims = [{"name": entry} for entry in entries]
    return {
        "name": "main",
        "image": "none",
        "command": ["/bin/sh", "-c", SCRIPT],
        "resources": {"claims": claims},
    }


async def running(client: Http, selector: str, count: int) -> list[Pod]:
    async def look() -> list[Pod]:
        pods = (await client.list(Pod, "default", labels=selector)).items
        return [*pods] if [pod.status.phase for pod in pods] == ["Running"] * count else []

    found = await eventually(look)
    assert found is not None
    return found


async def publish_cpus(client: Http) -> None:
    """Publish in place of a driver what the example of CPUs publishes."""
    pools = await CpuDriver("node-0").devices()
    devices = pools["node-0"].devices
    await client.create(ResourceSlice, slice_tree("cpus", CpuDriver.name, "node-0", 1, {"devices": [*devices]}))


async def environment(client: Http, pod: Pod) -> dict[str, str]:
    """What the container of a pod prints of its environment."""

    async def look() -> bytes:
        text = b"".join([piece async for piece in client.log(pod.metadata.name, "default")])
        return text if text.endswith(b"\n") and b"\nPWD=" in text else b""

    text = await eventually(look)
    assert text is not None
    return dict(line.split("=", 1) for line in text.decode().splitlines() if "=" in line)


async def test_the_pods_of_each_group_run_on_the_gpu_of_their_group(client: Http, place: Path) -> None:
    await client.create(DeviceClass, objects.device_class("gpus", 'device.driver == "gpu.example.com"'))
    await client.create(
        ResourceClaimTemplate, objects.template("one-gpu", objects.request("gpu", "gpus")), namespace="default"
    )
    entry = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
    for name in ("left", "right"):
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": [entry]}
        group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
        made = await client.create(PodGroup, {**group, "spec": spec}, namespace="default")
        assert made.apiVersion == "scheduling.k8s.io/v1beta1"
        spec = {"containers": [container("gpu")], "resourceClaims": [entry], "schedulingGroup": {"podGroupName": name}}
        await client.create(Deployment, objects.deployment(name, replicas=2, **spec), namespace="default")
    claims = []
    for name in ("left", "right"):
        pods = await running(client, f"app={name}", 2)
        [shared] = {told.resourceClaimName for pod in pods for told in pod.status.resourceClaimStatuses}
        claim = await client.get(ResourceClaim, shared or "", "default")
        claims.append(claim)
        assert [(one.resource, one.name) for one in claim.status.reservedFor] == [("podgroups", name)]
        assert claim.status.allocation is not None
        [given] = claim.status.allocation.devices.results
        for pod in pods if _has_agent(place) else ():
            variables = await environment(client, pod)
            assert [value for key, value in variables.items() if key.startswith("GPU_DEVICE_")] == [given.device]
    left, right = (claim.status.allocation for claim in claims)
    assert left != right


async def test_two_requests_for_cpus_are_shares_of_one_numa_node_and_count_against_the_node(
    client: Http, place: Path
) -> None:
    if not _has_agent(place):
        await publish_cpus(client)
    await client.create(DeviceClass, objects.device_class("cpu", 'device.driver == "cpu.example.com"'))
    one = {"capacity": {"requests": {"cpu.example.com/cpu": "1"}}}
    requests = [objects.request(name, "cpu", **one) for name in ("first", "second")]
    await client.create(ResourceClaimTemplate, objects.template("two-cpus", *requests), namespace="default")
    entry = {"name": "cpus", "resourceClaimTemplateName": "two-cpus"}
    tree = objects.pod(
        "pinned", containers=[container("cpus")], resourceClaims=[entry], metadata={"labels": {"a": "b"}}
    )
    await client.create(Pod, tree, namespace="default")
    [pod] = await running(client, "a=b", 1)
    [generated] = pod.status.resourceClaimStatuses
    [told] = pod.status.nodeAllocatableResourceClaimStatuses
    assert told.resourceClaimName == generated.resourceClaimName
    assert told.containers == ("main",)
    assert [(each.name, each.quantity) for each in told.mapping] == [("cpu", "2")]
    claim = await client.get(ResourceClaim, told.resourceClaimName, "default")
    assert claim.status.allocation is not None
    shares = claim.status.allocation.devices.results
    assert [share.device for share in shares] == ["numa-0", "numa-0"]
    assert len({share.shareID for share in shares} - {None, ""}) == 2
    if _has_agent(place):
        variables = await environment(client, pod)
        assert [variables[f"CPU_SET_{number}"] for number in (0, 1)] == ["numa-0", "numa-0"]
        assert [variables[f"CPU_SET_{number}_SIZE"] for number in (0, 1)] == ["1", "1"]
    entry = {"name": "cpus", "resourceClaimTemplateName": "two-cpus"}
    await client.create(
        Pod, objects.pod("late", containers=[container("cpus")], resourceClaims=[entry]), namespace="default"
    )
    await waiting(client, "late")


async def waiting(client: Http, name: str) -> None:
    """Wait until a pod is told that it cannot be scheduled."""

    async def look() -> bool:
        conditions = (await client.get(Pod, name, "default")).status.conditions
        return any((one.type, one.status) == ("PodScheduled", "False") for one in conditions)

    await eventually(look)
