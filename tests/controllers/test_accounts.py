"""The furniture of namespaces."""

from __future__ import annotations

from dray.api.types.core import ConfigMap, Namespace, ServiceAccount
from dray.client import Client
from dray.controllers.accounts import ROOT_CA, RootCertificates, ServiceAccounts
from tests.controllers.conftest import Start, exists, quiet
from tests.waiting import eventually


async def test_every_namespace_has_a_default_account_and_the_certificate(client: Client, start: Start) -> None:
    await client.create(Namespace, {"metadata": {"name": "before"}})
    async with start(ServiceAccounts, RootCertificates, root_ca="PEM"):
        await client.create(Namespace, {"metadata": {"name": "after"}})

        async def furnished() -> bool:
            return all(
                [
                    await exists(client, ServiceAccount, "default", namespace)
                    and await exists(client, ConfigMap, ROOT_CA, namespace)
                    for namespace in ("before", "after")
                ]
            )

        await eventually(furnished)
    assert (await client.get(ConfigMap, ROOT_CA, "after")).data == {"ca.crt": "PEM"}


async def test_what_is_deleted_or_changed_comes_back(client: Client, start: Start) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})
    async with start(ServiceAccounts, RootCertificates, root_ca="PEM"):

        async def right() -> bool:
            return (
                await exists(client, ServiceAccount, "default", "ns")
                and await exists(client, ConfigMap, ROOT_CA, "ns")
                and (await client.get(ConfigMap, ROOT_CA, "ns")).data == {"ca.crt": "PEM"}
            )

        await eventually(right)
        await client.delete(ServiceAccount, "default", "ns")
        await client.delete(ConfigMap, ROOT_CA, "ns")
        await eventually(right)
        await client.patch(ConfigMap, ROOT_CA, {"data": {"ca.crt": "other", "more": "x"}}, "ns")
        await eventually(right)


async def test_a_namespace_that_ends_is_left_alone(client: Client, start: Start) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})
    async with start(ServiceAccounts):

        async def furnished() -> bool:
            return await exists(client, ServiceAccount, "default", "ns")

        await eventually(furnished)
        await client.delete(Namespace, "ns")
        await client.delete(ServiceAccount, "default", "ns")
        await quiet()
    assert not await exists(client, ServiceAccount, "default", "ns")


async def test_without_an_authority_nothing_is_published(client: Client, start: Start) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})
    async with start(RootCertificates):
        await quiet()
    assert not await exists(client, ConfigMap, ROOT_CA, "ns")
