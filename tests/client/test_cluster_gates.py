"""What a cluster says of its features, and what counts when it does not."""

from __future__ import annotations

import pytest
from aiohttp import web

from dray.api.gates import FeatureGates
from dray.client.cluster_gates import discover
from dray.client.http import Http
from tests.client.conftest import Running, listening
from tests.client.test_http import Config, serving


def kubernetes(minor: str, metrics: str | None = None) -> object:
    async def handler(request: web.Request) -> web.Response:
        if request.path == "/version":
            return web.json_response({"major": "1", "minor": minor})
        if metrics is None:
            return web.json_response({"kind": "Status", "reason": "Forbidden", "code": 403}, status=403)
        return web.Response(text=metrics)

    return handler


@pytest.mark.parametrize(
    ("minor", "on", "off"),
    [
        ("34", ["DRAPrioritizedList"], ["DRADeviceTaints", "DRAExtendedResource", "DRAConsumableCapacity"]),
        ("35+", ["DRAPrioritizedList"], ["DRAPartitionableDevices", "DRADeviceBindingConditions"]),
        ("36", ["DRADeviceTaints", "DRAExtendedResource"], ["DRAFractionalCapacityRange", "GenericWorkload"]),
        ("37", ["DRAFractionalCapacityRange"], ["GenericWorkload"]),
        ("41", ["DRAFractionalCapacityRange"], ["GenericWorkload"]),
        ("new", ["DRAFractionalCapacityRange"], ["GenericWorkload"]),
    ],
)
async def test_without_a_permission_for_metrics_the_defaults_of_the_release_count(
    minor: str, on: list[str], off: list[str]
) -> None:
    async with serving(kubernetes(minor)) as client:  # type: ignore[arg-type]
        found = await discover(client, FeatureGates())
    assert [name for name in on if not found.gates.served(name)] == []
    assert [name for name in off if found.gates.served(name)] == []


async def test_what_the_server_tells_goes_before_its_release_and_the_operator_before_both() -> None:
    told = (
        'kubernetes_feature_enabled{name="DRAConsumableCapacity",stage="BETA"} 0\n'
        'kubernetes_feature_enabled{name="GenericWorkload",stage="ALPHA"} 1\n'
        'kubernetes_feature_enabled{name="DRAExtendedResource",stage="BETA"} 0\n'
        'kubernetes_feature_enabled{name="SomethingElse",stage=""} 1\n'
    )
    async with serving(kubernetes("37", told)) as client:  # type: ignore[arg-type]
        found = await discover(client, FeatureGates.parse("DRAExtendedResource=true"))
    assert found.release == "1.37"
    assert found.differences == ("DRAConsumableCapacity=false", "GenericWorkload=true")
    assert not found.gates.served("DRAFractionalCapacityRange")  # needs what is off
    assert found.gates.served("GenericWorkload")
    assert found.gates.served("DRAExtendedResource")


async def test_this_server_tells_its_gates(server: Running) -> None:
    async with listening(server) as address, Http(Config(address)) as client:
        found = await discover(client, FeatureGates())
    assert (found.gates.all_served, found.differences) == (FeatureGates().all_served, ())
