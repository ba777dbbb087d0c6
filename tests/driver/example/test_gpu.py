"""The example drivers and what is applied with them."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
import yaml

from dray.api.resources import BY_KIND
from dray.client import Client
from dray.driver import Driver, Runner
from dray.driver.contract import HealthReporter
from dray.driver.example import GpuDriver, NetworkDriver
from dray.driverkit.cluster import RULES
from dray.node.cdi import Specs
from tests.driver.conftest import NODE
from tests.driver.places import Kubelet, Places, allocated_claim

GPU = "gpu.example.com"


def config(source: str, **parameters: Any) -> dict[str, Any]:
    fields = {"apiVersion": "gpu.example.com/v1", "kind": "GpuConfig", **parameters}
    return {"source": source, "opaque": {"driver": GPU, "parameters": fields}}


def test_the_examples_are_drivers() -> None:
    assert isinstance(GpuDriver(NODE), Driver)
    assert isinstance(GpuDriver(NODE), HealthReporter)
    assert isinstance(NetworkDriver(), Driver)


async def test_containers_get_the_variables_of_their_device_and_of_its_parameters(
    client: Client, places: Places
) -> None:
    kubelet = Kubelet(places.registration(GPU))
    configs = [config("FromClass", persistence=True), config("FromClaim", sharing="time-sliced", env={"A": "b"})]
    configs[1]["requests"] = ["r0"]
    async with Runner(GpuDriver(NODE), client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi):
        claim = await allocated_claim(client, "c", ["gpu-3", "gpu-1"], config=configs)
        answer = (await kubelet.prepare(claim))[claim.metadata.uid]
        first, second = (Specs([places.cdi]).edits([*one.cdi_device_ids]).edits.env for one in answer.devices)
        assert first == ("GPU_DEVICE_3=gpu-3", "GPU_SHARING=time-sliced", "A=b", "GPU_PERSISTENCE=true")
        assert second == ("GPU_DEVICE_1=gpu-1", "GPU_SHARING=exclusive", "GPU_PERSISTENCE=true")


@pytest.mark.parametrize(
    ("parameters", "complaint"), [({"persistence": True}, "DeviceClass only"), ({"sharing": "often"}, "sharing")]
)
async def test_parameters_are_checked_when_a_claim_is_prepared(
    client: Client, places: Places, parameters: dict[str, Any], complaint: str
) -> None:
    kubelet = Kubelet(places.registration(GPU))
    async with Runner(GpuDriver(NODE), client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi):
        claim = await allocated_claim(client, "c", ["gpu-3"], config=[config("FromClaim", **parameters)])
        assert complaint in (await kubelet.prepare(claim))[claim.metadata.uid].error


@pytest.mark.parametrize("kind", ["gpu", "network"])
async def test_the_manifests_are_accepted_and_give_no_more_than_a_driver_needs(client: Client, kind: str) -> None:
    text = (files("dray.driver.example") / "manifests" / f"{kind}.yaml").read_text()
    for tree in yaml.safe_load_all(text):
        group = tree["apiVersion"].rpartition("/")[0]
        resource = BY_KIND[group, tree["kind"]]
        await client.create(resource.type, dict(tree))  # type: ignore[type-var]  # all kinds are objects
        if tree["kind"] == "ClusterRole":
            assert tree["rules"] == RULES


async def test_health_follows_the_devices(places: Places) -> None:
    file = places.root / "devices"
    file.write_text("gpu-0")
    driver = GpuDriver(NODE, count=2, file=file)
    assert {one.device: one.healthy for one in await driver.health()} == {"gpu-0": True, "gpu-1": False}
