"""The end of namespaces."""

from __future__ import annotations

import pytest

from dray.api.errors import Forbidden
from dray.api.types.core import ConfigMap, Namespace, Pod, Secret
from dray.api.types.resource import ResourceClaimTemplate
from dray.client import Client
from dray.controllers.namespaces import NamespaceController, Remaining, told
from tests.controllers.conftest import Start, exists, gone
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.controllers.namespaces.GRACE_SECONDS", 0.05)


@pytest.fixture(autouse=True)
async def namespace(client: Client) -> None:
    for name in ("ns", "other"):
        await client.create(Namespace, {"metadata": {"name": name}})


async def fill(client: Client, namespace: str) -> None:
    await client.create(ConfigMap, {"metadata": {"name": "a"}}, namespace=namespace)
    await client.create(Secret, {"metadata": {"name": "a"}}, namespace=namespace)
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await client.create(Pod, pod, namespace=namespace)
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    await client.create(ResourceClaimTemplate, {"metadata": {"name": "a"}, "spec": spec}, namespace=namespace)


async def test_a_deleted_namespace_is_emptied_and_goes(client: Client, start: Start) -> None:
    await fill(client, "ns")
    await fill(client, "other")
    async with start(NamespaceController):
        await client.delete(Namespace, "ns")
        await gone(client, Namespace, "ns")
    for type_ in (ConfigMap, Secret, Pod, ResourceClaimTemplate):
        assert not await exists(client, type_, "a", "ns")
        assert await exists(client, type_, "a", "other")


async def test_an_empty_namespace_goes_at_once(client: Client, start: Start) -> None:
    async with start(NamespaceController):
        await client.delete(Namespace, "ns")
        await gone(client, Namespace, "ns")


async def test_one_deleted_while_nobody_ran_is_emptied_at_start(client: Client, start: Start) -> None:
    await fill(client, "ns")
    await client.delete(Namespace, "ns")
    assert (await client.get(Namespace, "ns")).status.phase == "Terminating"
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await client.create(ConfigMap, {"metadata": {"name": "b"}}, namespace="ns")
    async with start(NamespaceController):
        await gone(client, Namespace, "ns")


async def test_conditions_say_what_a_namespace_waits_for(client: Client, start: Start) -> None:
    metadata = {"name": "held", "finalizers": ["test/hold"]}
    await client.create(ConfigMap, {"metadata": metadata}, namespace="ns")
    async with start(NamespaceController):
        await client.delete(Namespace, "ns")

        async def told_() -> bool:
            return bool((await client.get(Namespace, "ns")).status.conditions)

        await eventually(told_)
        conditions = {c.type: c for c in (await client.get(Namespace, "ns")).status.conditions}
        left, held = conditions["NamespaceContentRemaining"], conditions["NamespaceFinalizersRemaining"]
        assert (left.status, left.message) == (
            "True",
            "Some resources are remaining: configmaps has 1 resource instances",
        )
        assert held.message.endswith("has finalizers remaining: test/hold in 1 resource instances")
        assert conditions["NamespaceDeletionContentFailure"].status == "False"
        await client.patch(ConfigMap, "held", {"metadata": {"finalizers": None}}, "ns")
        await gone(client, Namespace, "ns")


async def test_pods_go_before_everything_else(client: Client, start: Start) -> None:
    await fill(client, "ns")
    await client.patch(Pod, "a", {"metadata": {"finalizers": ["test/hold"]}}, "ns")
    async with start(NamespaceController):
        await client.delete(Namespace, "ns")

        async def conditions() -> dict[str, str]:
            found = (await client.get(Namespace, "ns")).status.conditions
            return {one.type: one.message for one in found if one.status == "True"}

        assert await eventually(conditions) == {
            "NamespaceContentRemaining": "Some resources are remaining: pods has 1 resource instances",
            "NamespaceFinalizersRemaining": "Some content in the namespace has finalizers remaining: "
            "test/hold in 1 resource instances",
        }
        assert (await client.get(Pod, "a", "ns")).metadata.deletionTimestamp
        assert (await client.get(ConfigMap, "a", "ns")).metadata.deletionTimestamp is None
        await client.patch(Pod, "a", {"metadata": {"finalizers": None}}, "ns")
        await gone(client, Namespace, "ns")


def test_a_failure_is_told_in_its_own_condition() -> None:
    (failure, *_) = told(Remaining({}, {}, ("pods: no",)))
    assert failure == (
        "NamespaceDeletionContentFailure",
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types: pods: no",
    )
