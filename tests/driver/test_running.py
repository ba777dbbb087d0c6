"""A driver as a whole: published, registered, asked to prepare and unprepare, over real sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dray.api.types.resource import ResourceSlice
from dray.client import Client
from dray.driver import Runner, run
from dray.driver.example import GpuDriver, NetworkDriver
from dray.node.cdi import Specs
from tests.driver.conftest import NODE
from tests.driver.places import Kubelet, Places, allocated_claim, background
from tests.waiting import eventually

GPU = "gpu.example.com"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
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


def runner(client: Client, places: Places, **more: Any) -> Runner:
    driver = more.pop("driver", None) or GpuDriver(NODE)
    return Runner(driver, client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi, **more)


async def test_a_rolling_update_overlaps_and_the_new_instance_knows_the_claims_of_the_old(
    client: Client, places: Places
) -> None:
    claim = await allocated_claim(client, "c", ["gpu-3"])
    async with runner(client, places, instance="new") as new:
        async with runner(client, places, instance="old") as old:
            await old.publisher.published()
            before = await Kubelet(places.registration(GPU, "old")).prepare(claim)
            [published] = (await client.list(ResourceSlice)).items
            kubelet = Kubelet(places.registration(GPU, "new"))
            after = await kubelet.prepare(claim)
            assert str(after) == str(before)
        await new.publisher.published()
        assert not places.registration(GPU, "old").exists()
        await kubelet.unprepare(claim)
        assert places.specs() == []
        assert (await client.list(ResourceSlice)).items == (published,)


async def test_devices_that_come_and_go_are_published_and_refused(client: Client, places: Places) -> None:
    file = places.root / "devices"
    file.write_text("gpu-0 gpu-1")
    kubelet = Kubelet(places.registration(GPU))

    async def names() -> list[str]:
        return [one.name for each in (await client.list(ResourceSlice)).items for one in each.spec.devices]

    async with runner(client, places, driver=GpuDriver(NODE, file=file), refresh=0.05) as running:
        await running.publisher.published()
        claim = await allocated_claim(client, "c", ["gpu-1"])
        file.write_text("gpu-0")

        async def gone() -> bool:
            return await names() == ["gpu-0"]

        await eventually(gone)
        assert "gpu-1" in (await kubelet.prepare(claim))[claim.metadata.uid].error
        file.write_text("gpu-0 gpu-1")
        assert (await kubelet.prepare(claim))[claim.metadata.uid].error == ""


async def test_a_driver_that_cannot_look_keeps_what_it_published(
    client: Client, places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    file = places.root / "devices"
    file.write_text("gpu-0")
    async with runner(client, places, driver=GpuDriver(NODE, file=file), refresh=0.02) as running:
        await running.publisher.published()
        file.unlink()
        await eventually(lambda: "keeping the last list" in caplog.text)
        assert len((await client.list(ResourceSlice)).items) == 1


async def test_slices_go_at_the_end_only_if_asked(client: Client, places: Places) -> None:
    for withdraw, left in ((False, 1), (True, 0)):
        async with runner(client, places, withdraw=withdraw) as running:
            await running.publisher.published()
        assert len((await client.list(ResourceSlice)).items) == left


async def test_a_network_attached_device_is_published_centrally_and_prepared_on_a_node(
    client: Client, places: Places
) -> None:
    driver = NetworkDriver(2)
    async with Runner(driver, client) as central, runner(client, places, driver=driver):
        await central.publisher.published()
        [published] = (await client.list(ResourceSlice)).items
        assert (published.spec.allNodes, published.spec.pool.name) == (True, "fabric")
        claim = await allocated_claim(client, "c", ["accelerator-1"], driver=driver.name, pool="fabric")
        answers = await Kubelet(places.registration(driver.name)).prepare(claim)
        [device] = answers[claim.metadata.uid].devices
        assert Specs([places.cdi]).edits([*device.cdi_device_ids]).edits.env == (
            "FABRIC_0=fabric://fabric/accelerator-1",
        )


async def test_run_serves_until_it_is_cancelled_and_cleans_up_after_itself(client: Client, places: Places) -> None:
    work = run(GpuDriver(NODE), client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi)
    async with background(work):
        await eventually(lambda: places.registration(GPU).exists())
    assert [path for path in places.kubelet.rglob("*") if path.is_socket()] == []


async def test_a_driver_runs_in_a_directory_whose_path_is_long(client: Client, places: Places) -> None:
    long = Places(places.root / ("x" * 100))
    async with runner(client, long):
        assert sorted(path.name for path in long.kubelet.rglob("*") if path.is_socket()) == [
            "dra.sock",
            f"{GPU}-reg.sock",
        ]
