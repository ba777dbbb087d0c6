"""What drivers report about devices in a claim's status."""

from __future__ import annotations

import pytest

from dray.api.errors import ApiError
from dray.api.types.resource import ResourceClaim
from dray.client import Client
from dray.driver import AllocatedDevice, ClaimReference, Condition, DeviceStatus, NetworkData, report
from tests.driver.places import allocated_claim

DRIVER = "gpu.example.com"


def reference(claim: ResourceClaim) -> ClaimReference:
    return ClaimReference(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)


def status(name: str, *conditions: Condition, network: NetworkData | None = None) -> DeviceStatus:
    return DeviceStatus(AllocatedDevice("r0", "node-1", name), conditions, network)


async def test_conditions_and_network_data_stand_in_the_claim_and_the_last_report_counts(client: Client) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-0", "gpu-1"]))
    attached = Condition("Attached", True, "Done")
    await report(client, DRIVER, claim, [status("gpu-0", attached, network=NetworkData("eth1")), status("gpu-1")])
    first = (await client.get(ResourceClaim, "c", "default")).status.devices
    assert [one.device for one in first] == ["gpu-0", "gpu-1"]
    assert first[0].networkData is not None
    assert first[0].networkData.interfaceName == "eth1"
    await report(client, DRIVER, claim, [status("gpu-0", Condition("Attached", True, "StillDone"))])
    (second,) = (await client.get(ResourceClaim, "c", "default")).status.devices
    assert second.networkData is None
    assert second.conditions is not None
    assert first[0].conditions is not None
    assert second.conditions[0].reason == "StillDone"
    assert second.conditions[0].lastTransitionTime == first[0].conditions[0].lastTransitionTime


async def test_a_claim_that_was_replaced_is_left_alone(client: Client) -> None:
    await allocated_claim(client, "c", ["gpu-0"])
    earlier = ClaimReference("default", "c", "00000000-0000-0000-0000-000000000000")
    with pytest.raises(ApiError, match="uid"):
        await report(client, DRIVER, earlier, [status("gpu-0")])
    assert not (await client.get(ResourceClaim, "c", "default")).status.devices
