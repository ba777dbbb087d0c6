"""Namespaces: before their content, after it, and furnished."""

import pytest

from dray.api.errors import Forbidden, NotFound
from dray.apiserver.admission.namespaces import NamespaceDefaults, NamespaceLifecycle
from tests.apiserver.admission.writing import create, delete, update
from tests.apiserver.reading import Objects, account, namespace, pod, slice_


async def test_namespace_must_exist() -> None:
    plugin = NamespaceLifecycle(Objects(namespace("default")))
    await create(plugin, pod("p"))
    with pytest.raises(NotFound) as caught:
        await create(plugin, pod("p", "nope"))
    assert caught.value.message == 'namespaces "nope" not found'


async def test_cluster_wide_objects_need_no_namespace() -> None:
    await create(NamespaceLifecycle(Objects()), slice_("s"))


@pytest.mark.parametrize(
    "ending",
    [
        {**namespace("ns"), "status": {"phase": "Terminating"}},
        namespace("ns", deletionTimestamp="2027-01-01T00:00:00Z"),
    ],
)
async def test_nothing_new_in_a_namespace_that_ends(ending: dict[str, object]) -> None:
    plugin = NamespaceLifecycle(Objects(ending))
    with pytest.raises(Forbidden) as caught:
        await create(plugin, pod("p", "ns"))
    assert caught.value.message == (
        'pods "p" is forbidden: unable to create new content in namespace ns because it is being terminated'
    )
    assert caught.value.details["causes"] == [
        {"reason": "NamespaceTerminating", "message": "namespace ns is being terminated", "field": "metadata.namespace"}
    ]
    await update(plugin, pod("p", "ns"), pod("p", "ns"))
    await delete(plugin, pod("p", "ns"))


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
async def test_namespaces_of_the_system_stay(name: str) -> None:
    with pytest.raises(Forbidden, match=f'namespaces "{name}" is forbidden: this namespace may not be deleted'):
        await delete(NamespaceLifecycle(Objects()), namespace(name))


async def test_other_namespaces_can_be_deleted() -> None:
    await delete(NamespaceLifecycle(Objects()), namespace("mine"))


async def test_new_namespace_comes_with_account_and_certificate() -> None:
    asked = await create(NamespaceDefaults(Objects(), "PEM"), namespace("ns"))
    account_, authority = asked.writes
    assert (account_.resource.kind, account_.namespace, account_.name) == ("ServiceAccount", "ns", "default")
    assert (authority.resource.kind, authority.name) == ("ConfigMap", "kube-root-ca.crt")
    assert authority.tree["data"] == {"ca.crt": "PEM"}
    assert {write.expected for write in asked.writes} == {"0"}
    assert all(write.tree["metadata"]["uid"] for write in asked.writes)


async def test_what_an_earlier_namespace_left_behind_is_kept() -> None:
    plugin = NamespaceDefaults(Objects(account("default", "ns")))
    assert (await create(plugin, namespace("ns"))).writes == []


async def test_dry_run_writes_nothing() -> None:
    assert (await create(NamespaceDefaults(Objects(), "PEM"), namespace("ns"), dry_run=True)).writes == []
