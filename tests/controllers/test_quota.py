"""Quotas: what is used is what is there."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.types.core import ConfigMap, Namespace, Pod, ResourceQuota, ResourceQuotaStatus
from dray.api.types.resource import ResourceClaim
from dray.client import Client
from dray.controllers.quota import QuotaController
from tests import objects
from tests.controllers.conftest import Start
from tests.waiting import eventually

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
CLAIMS = "count/resourceclaims.resource.k8s.io"


@pytest.fixture(autouse=True)
async def namespace(client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})


async def quota(client: Client, **hard: str) -> None:
    await client.create(ResourceQuota, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace="ns")


async def create_claim(client: Client, name: str, count: int = 1) -> None:
    request = objects.request(allocationMode="ExactCount", count=count)
    await client.create(ResourceClaim, objects.claim(name, request), namespace="ns")


async def used(client: Client, expected: dict[str, str]) -> None:
    async def matches() -> bool:
        return (await client.get(ResourceQuota, "q", "ns")).status.used == expected

    await eventually(matches)


async def test_a_new_quota_counts_what_is_there(client: Client, start: Start) -> None:
    await create_claim(client, "a", 2)
    await create_claim(client, "b", 3)
    async with start(QuotaController):
        await quota(client, **{DEVICES: "10", CLAIMS: "5"})
        await used(client, {DEVICES: "5", CLAIMS: "2"})
        assert (await client.get(ResourceQuota, "q", "ns")).status.hard == {DEVICES: "10", CLAIMS: "5"}


async def test_what_is_deleted_is_given_back(client: Client, start: Start) -> None:
    async with start(QuotaController):
        await quota(client, **{DEVICES: "10", "configmaps": "5"})
        await used(client, {DEVICES: "0", "configmaps": "0"})
        await create_claim(client, "a", 4)
        await client.create(ConfigMap, {"metadata": {"name": "a"}}, namespace="ns")
        await client.delete(ResourceClaim, "a", "ns")
        await client.delete(ConfigMap, "a", "ns")
        await used(client, {DEVICES: "0", "configmaps": "0"})


async def test_a_pod_that_is_done_counts_no_more(client: Client, start: Start) -> None:
    pod = objects.pod(needs={"requests": {"cpu": "500m"}})
    async with start(QuotaController):
        await quota(client, **{"requests.cpu": "1"})
        await used(client, {"requests.cpu": "0"})
        await client.create(Pod, pod, namespace="ns")
        await used(client, {"requests.cpu": "500m"})
        await client.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, "ns", subresource="status")
        await used(client, {"requests.cpu": "0"})


async def test_names_that_leave_the_quota_leave_its_status(client: Client, start: Start) -> None:
    async with start(QuotaController):
        await quota(client, **{DEVICES: "10", "configmaps": "5"})
        await used(client, {DEVICES: "0", "configmaps": "0"})
        await client.patch(ResourceQuota, "q", {"spec": {"hard": {DEVICES: None}}}, "ns")
        await used(client, {"configmaps": "0"})
        assert (await client.get(ResourceQuota, "q", "ns")).status.hard == {"configmaps": "5"}


@pytest.mark.parametrize(
    "written",
    [
        pytest.param({"hard": {"configmaps": "7"}}, id="another limit"),
        pytest.param({"used": {"configmaps": "0"}}, id="less than there is"),
        pytest.param({"used": {"configmaps": None}}, id="nothing"),
    ],
)
async def test_a_status_that_a_client_wrote_is_corrected(
    client: Client, start: Start, written: dict[str, dict[str, str]]
) -> None:
    await client.create(ConfigMap, {"metadata": {"name": "a"}}, namespace="ns")
    async with start(QuotaController):
        await quota(client, configmaps="5")
        await used(client, {"configmaps": "1"})
        wrong = await client.patch(ResourceQuota, "q", {"status": written}, "ns", subresource="status")
        assert wrong.status != ResourceQuotaStatus(hard={"configmaps": "5"}, used={"configmaps": "1"})

        async def corrected() -> bool:
            status = (await client.get(ResourceQuota, "q", "ns")).status
            return status == ResourceQuotaStatus(hard={"configmaps": "5"}, used={"configmaps": "1"})

        await eventually(corrected)


async def test_creations_and_deletions_at_once_end_in_the_right_count(client: Client, start: Start) -> None:
    async with start(QuotaController):
        await quota(client, configmaps="1000")
        await used(client, {"configmaps": "0"})

        async def churn(worker: int) -> None:
            for number in range(20):
                name = f"c-{worker}-{number}"
                await client.create(ConfigMap, {"metadata": {"name": name}}, namespace="ns")
                if number % 4:
                    await client.delete(ConfigMap, name, "ns")

        await asyncio.gather(*(churn(worker) for worker in range(8)))
        await used(client, {"configmaps": "40"})
