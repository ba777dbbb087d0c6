"""Device metadata in containers: the files, their places, and that they go with the claim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dray.api.types.resource import ResourceClaim
from dray.client import Client
from dray.driver import (
    AllocatedClaim,
    ClaimReference,
    DeviceMetadata,
    NetworkData,
    Pool,
    Pools,
    PreparedDevice,
    Runner,
    device,
)
from dray.node.cdi import Specs
from tests.driver.conftest import NODE
from tests.driver.places import Kubelet, Places, allocated_claim

DRIVER = "gpu.example.com"
IN_CONTAINERS = "/var/run/kubernetes.io/dra-device-attributes"


class Telling:
    """A driver that tells of every second device what the network needs, and of the others what it published."""

    name = DRIVER

    async def devices(self) -> Pools:
        return {NODE: Pool([device(f"gpu-{number}", {"model": "a100"}) for number in range(4)])}

    async def prepare(self, claim: AllocatedClaim) -> list[PreparedDevice]:
        own = DeviceMetadata({"speed": 3}, NetworkData("eth1", ["10.0.0.2/24"], "aa:bb:cc:dd:ee:ff"))
        told = [DeviceMetadata(), own]
        return [PreparedDevice(one, metadata=told[number % 2]) for number, one in enumerate(claim.devices)]

    async def unprepare(self, claim: ClaimReference) -> None: ...


def documents(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_file_for_each_request_is_mounted_where_programs_look_for_it(client: Client, places: Places) -> None:
    kubelet = Kubelet(places.registration(DRIVER))
    async with Runner(Telling(), client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi):
        claim = await allocated_claim(client, "c", ["gpu-0", "gpu-1", "gpu-2"], requests=["a", "a", "b/big"])
        answer = (await kubelet.prepare(claim))[claim.metadata.uid]
        ids = [[*one.cdi_device_ids] for one in answer.devices]
        assert ids == [
            [f"{DRIVER}/metadata={claim.metadata.uid}_a"],
            [],  # the first device of the request brings the file
            [f"{DRIVER}/metadata={claim.metadata.uid}_b"],
        ]
        mount, second = (Specs([places.cdi]).edits(one).edits.mounts[0] for one in (ids[0], ids[2]))
        assert mount.containerPath == f"{IN_CONTAINERS}/resourceclaims/c/a/{DRIVER}-metadata.json"
        assert second.containerPath == f"{IN_CONTAINERS}/resourceclaims/c/b/{DRIVER}-metadata.json"
        newest, older = documents(Path(mount.hostPath))
        assert (newest["apiVersion"], older["apiVersion"]) == (
            "metadata.resource.k8s.io/v1beta1",
            "metadata.resource.k8s.io/v1alpha1",
        )
        assert newest["metadata"]["uid"] == claim.metadata.uid
        first, other = newest["requests"][0]["devices"]
        assert first == {"driver": DRIVER, "pool": NODE, "name": "gpu-0", "attributes": {"model": {"string": "a100"}}}
        assert other["attributes"] == {"speed": {"int": 3}}
        assert other["networkData"]["ips"] == ["10.0.0.2/24"]
        assert documents(Path(second.hostPath))[0]["requests"][0]["name"] == "b/big"


async def test_a_generated_claim_is_found_by_the_name_that_the_pod_gave_it(client: Client, places: Places) -> None:
    kubelet = Kubelet(places.registration(DRIVER))
    async with Runner(Telling(), client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi):
        claim = await allocated_claim(client, "pod-gpu-x7f2k", ["gpu-0"])
        annotation = {"resource.kubernetes.io/pod-claim-name": "gpu"}
        await client.patch(ResourceClaim, claim.metadata.name, {"metadata": {"annotations": annotation}}, "default")
        answer = (await kubelet.prepare(claim))[claim.metadata.uid]
        mount = Specs([places.cdi]).edits([*answer.devices[0].cdi_device_ids]).edits.mounts[0]
        assert mount.containerPath == f"{IN_CONTAINERS}/resourceclaimtemplates/gpu/r0/{DRIVER}-metadata.json"
        assert documents(Path(mount.hostPath))[0]["podClaimName"] == "gpu"


async def test_the_files_go_with_the_claim(client: Client, places: Places) -> None:
    kubelet = Kubelet(places.registration(DRIVER))
    async with Runner(Telling(), client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi):
        claim, other = [await allocated_claim(client, name, [f"gpu-{n}"]) for n, name in enumerate(("c", "other"))]
        await kubelet.prepare(claim, other)
        await kubelet.unprepare(claim)
        files = places.kubelet / "plugins" / DRIVER / "dra-device-metadata"
        assert [path.name for path in files.iterdir()] == ["default_other"]
        assert places.specs() == [f"{DRIVER}_metadata_{other.metadata.uid}_r0.json"]
