"""The example's webhook, asked by a real API server over HTTPS."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dray.api.errors import ApiError
from dray.api.types.admissionregistration import ValidatingWebhookConfiguration
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from dray.client import Client
from dray.driver.example import webhook

GOOD = {"apiVersion": "gpu.example.com/v1", "kind": "GpuConfig", "sharing": "time-sliced"}
CLASS_ONLY = {**GOOD, "persistence": True}
BAD = {**GOOD, "sharing": "often"}


def config(parameters: dict[str, Any], driver: str = "gpu.example.com") -> list[dict[str, Any]]:
    return [{"opaque": {"driver": driver, "parameters": parameters}}]


def claim_spec(parameters: dict[str, Any], **more: str) -> dict[str, Any]:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]
    return {"devices": {"requests": requests, "config": config(parameters, **more)}}


async def write(client: Client, kind: type[Any], parameters: dict[str, Any], **more: str) -> None:
    if kind is DeviceClass:
        spec: dict[str, Any] = {"config": config(parameters, **more)}
    else:
        spec = claim_spec(parameters, **more)
    metadata: dict[str, Any] = {"generateName": "x-"}
    if kind is not DeviceClass:
        metadata["namespace"] = "default"
    if kind is ResourceClaimTemplate:
        spec = {"spec": spec}
    await client.create(kind, {"metadata": metadata, "spec": spec})


async def test_wrong_parameters_are_refused_when_they_are_written(client: Client) -> None:
    async with webhook.serving(0) as configuration:
        await client.create(ValidatingWebhookConfiguration, yaml.safe_load(configuration))
        for kind in (DeviceClass, ResourceClaim, ResourceClaimTemplate):
            await write(client, kind, GOOD)
            await write(client, kind, {"any": "thing"}, driver="other.example.com")
            with pytest.raises(ApiError, match=r"config\[0\].*sharing"):
                await write(client, kind, BAD)
        await write(client, DeviceClass, CLASS_ONLY)
        for kind in (ResourceClaim, ResourceClaimTemplate):
            with pytest.raises(ApiError, match="persistence may be set by a DeviceClass only"):
                await write(client, kind, CLASS_ONLY)
