"""A driver as a whole: published, registered, asked to prepare and unprepare, over real sockets."""

from __future__ import annotations

import json

import pytest

from dray.api.types.resource import ResourceSlice
from dray.client import Client
from dray.driver import Runner
from dray.driver.example import GpuDriver
from tests.driver.conftest import NODE
from tests.driver.places import VERSIONS, Kubelet, Places, allocated_claim

GPU = "gpu.example.com"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_claim_goes_from_published_device_to_container_edits_and_back(
    client: Client, places: Places, version: str
) -> None:
    kubelet = Kubelet(places.registration(GPU))
    async with Runner(GpuDriver(NODE), client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi) as runner:
        await runner.publisher.published()
        [published] = (await client.list(ResourceSlice)).items
        assert [one.name for one in published.spec.devices] == [f"gpu-{n}" for n in range(8)]
        await kubelet.notify()
        claim = await allocated_claim(client, "c", ["gpu-3"])
        answer = await kubelet.prepare(claim, version=version)
        [device] = answer[claim.metadata.uid].devices
        assert (list(device.request_names), device.pool_name, device.device_name) == (["r0"], NODE, "gpu-3")
        [file] = places.specs()
        spec = json.loads((places.cdi / file).read_text())
        assert list(device.cdi_device_ids) == [f"{spec['kind']}={spec['devices'][0]['name']}"]
        assert "GPU_DEVICE_3=gpu-3" in spec["devices"][0]["containerEdits"]["env"]
        await kubelet.unprepare(claim, version=version)
        assert places.specs() == []
    assert not places.registration(GPU).exists()
