"""Custom resources and the controllers that are about all kinds: garbage collection, namespaces, quotas."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.custom import custom_resource
from dray.api.errors import Forbidden, NotFound
from dray.api.types.apiextensions import CustomResourceDefinition
from dray.api.types.core import ConfigMap, Namespace, ResourceQuota
from dray.api.types.resource import ResourceClaimConsumerReference
from dray.api.users import AUTHENTICATED, User
from dray.apiserver.assembly import Running
from dray.client import Client, InProcess, ManualClock, type_of
from dray.controllers.garbage import GarbageCollector
from dray.controllers.namespaces import NamespaceController
from dray.controllers.quota import QuotaController
from dray.controllers.references import References
from tests.controllers.conftest import Start, exists, gone
from tests.waiting import eventually

DEFINITION = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture
async def widgets(client: Client, server: Running) -> Any:
    """The type to ask a client for widgets with."""
    await client.create(Namespace, {"metadata": {"name": "ns"}})
    await client.create(CustomResourceDefinition, DEFINITION)

    async def served() -> bool:
        return server.definitions.find("example.com", "widgets") is not None

    await eventually(served)
    return type_of(custom_resource(await client.get(CustomResourceDefinition, "widgets.example.com")))


async def make(client: Client, widgets: Any, name: str, owner: Any = None) -> Any:
    metadata: dict[str, Any] = {"name": name}
    if owner is not None:
        reference = {"apiVersion": owner.apiVersion, "kind": owner.kind, "name": owner.metadata.name}
        metadata["ownerReferences"] = [{**reference, "uid": owner.metadata.uid}]
    tree = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"a": 1}}
    return await client.create(widgets, tree, namespace="ns")


async def test_dependents_of_custom_objects_go_with_them(client: Client, start: Start, widgets: Any) -> None:
    async with start(GarbageCollector):
        owner = await make(client, widgets, "owner")
        await make(client, widgets, "child", owner)
        reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner.metadata.uid}
        tree = {"metadata": {"name": "config", "ownerReferences": [reference]}}
        await client.create(ConfigMap, tree, namespace="ns")
        await client.delete(widgets, "owner", "ns")
        await gone(client, widgets, "child", "ns")
        await gone(client, ConfigMap, "config", "ns")


async def test_a_namespace_takes_its_custom_objects_along(client: Client, start: Start, widgets: Any) -> None:
    await make(client, widgets, "w")
    async with start(NamespaceController):
        await client.delete(Namespace, "ns")
        await gone(client, Namespace, "ns")
        assert not await exists(client, widgets, "w", "ns")


async def test_quotas_count_custom_objects(client: Client, start: Start, widgets: Any) -> None:
    spec = {"hard": {"count/widgets.example.com": "1"}}
    await client.create(ResourceQuota, {"metadata": {"name": "q"}, "spec": spec}, namespace="ns")
    async with start(QuotaController):
        await make(client, widgets, "one")
        with pytest.raises(Forbidden, match="exceeded quota: q"):
            await make(client, widgets, "two")


async def test_what_is_not_defined_is_not_found(client: Client, widgets: Any) -> None:
    with pytest.raises(NotFound):
        await client.get(widgets, "nope", "ns")


async def test_a_consumer_of_a_custom_kind_is_missed_by_who_may_read_it(
    client: Client, server: Running, widgets: Any
) -> None:
    made = await make(client, widgets, "w")
    uid = made.metadata.uid
    reference = ResourceClaimConsumerReference(apiGroup="example.com", resource="widgets", name="w", uid=uid)
    references = References(client, ManualClock())
    stranger = References(InProcess(server.api, User("stranger", groups=(AUTHENTICATED,))), ManualClock())
    assert not await references.is_gone("ns", reference)
    await client.delete(widgets, "w", "ns")
    assert await references.is_gone("ns", reference, suspicious=True)
    assert not await stranger.is_gone("ns", reference)
    unknown = ResourceClaimConsumerReference(apiGroup="jobset.x-k8s.io", resource="jobsets", name="w", uid=uid)
    assert not await references.is_gone("ns", unknown)
