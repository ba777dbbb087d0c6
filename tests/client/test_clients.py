"""One suite for both clients: the same calls, objects and errors, near and far."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dray.api.errors import AlreadyExists, BadRequest, Conflict, Expired, Invalid, NotFound
from dray.api.types import core, resource, scheduling
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.wire.serving import HttpServer, listen
from dray.client import Client, Deltas, Informer, PatchKind, WatchEvent, change_status, with_conditions, with_fields
from dray.client.config import Config
from dray.client.http import Http
from dray.store import MemoryLog
from tests import objects
from tests.client.conftest import HISTORY, listening
from tests.client.proxy import Proxy
from tests.waiting import eventually, within


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


@pytest.fixture(autouse=True)
async def namespace(near: Client) -> None:
    await near.create(core.Namespace, {"metadata": {"name": "ns"}})


async def names(client: Client, **options: Any) -> list[str]:
    return [item.metadata.name for item in (await client.list(core.ConfigMap, "ns", **options)).items]


async def test_what_is_created_can_be_read(client: Client) -> None:
    created = await client.create(core.ConfigMap, config_map("a", k="v"), namespace="ns")
    assert isinstance(created, core.ConfigMap)
    assert created.metadata.uid
    assert created.metadata.resourceVersion
    read = await client.get(core.ConfigMap, "a", "ns")
    assert read == created
    assert (read.apiVersion, read.kind, read.data) == ("v1", "ConfigMap", {"k": "v"})


async def test_the_namespace_may_stand_in_the_tree(client: Client) -> None:
    tree = config_map("a")
    tree["metadata"]["namespace"] = "ns"
    assert (await client.create(core.ConfigMap, tree)).metadata.namespace == "ns"


async def test_cluster_wide_objects_have_no_namespace(client: Client) -> None:
    await client.create(resource.DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}}, namespace="ignored")
    assert (await client.get(resource.DeviceClass, "gpu")).metadata.namespace == ""


async def test_errors_keep_their_reason(client: Client) -> None:
    await client.create(core.ConfigMap, config_map("a"), namespace="ns")
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        await client.create(core.ConfigMap, config_map("a"), namespace="ns")
    with pytest.raises(NotFound) as caught:
        await client.get(core.ConfigMap, "b", "ns")
    assert caught.value.details["name"] == "b"
    with pytest.raises(Invalid) as invalid:
        await client.create(core.ConfigMap, config_map("No Name"), namespace="ns")
    assert invalid.value.errors[0].field == "metadata.name"


@pytest.mark.parametrize("verb", ["get", "patch", "delete"])
async def test_an_empty_name_never_means_everything(client: Client, verb: str) -> None:
    arguments: list[Any] = [core.ConfigMap, ""] + ([{}] if verb == "patch" else []) + ["ns"]
    with pytest.raises(BadRequest, match="a name is required"):
        await getattr(client, verb)(*arguments)


async def test_writing_without_a_namespace_is_refused(client: Client) -> None:
    with pytest.raises(BadRequest, match="a namespace is required"):
        await client.create(core.ConfigMap, config_map("a"))


async def test_an_update_is_conditional_on_the_version_it_names(client: Client) -> None:
    first = await client.create(core.ConfigMap, config_map("a", k="1"), namespace="ns")

    def changed(value: str, version: str) -> dict[str, Any]:
        meta = {"name": "a", "namespace": "ns", "resourceVersion": version}
        return {"metadata": meta, "data": {"k": value}}

    second = await client.update(core.ConfigMap, changed("2", first.metadata.resourceVersion))
    assert second.data == {"k": "2"}
    with pytest.raises(Conflict):
        await client.update(core.ConfigMap, changed("3", first.metadata.resourceVersion))


async def test_a_merge_patch_changes_what_it_names(client: Client) -> None:
    await client.create(core.ConfigMap, config_map("a", x="1", y="2"), namespace="ns")
    patched = await client.patch(core.ConfigMap, "a", {"data": {"x": None, "z": "3"}}, "ns")
    assert patched.data == {"y": "2", "z": "3"}


async def test_a_patch_that_names_an_old_version_conflicts(client: Client) -> None:
    first = await client.create(core.ConfigMap, config_map("a"), namespace="ns")
    condition = {"metadata": {"resourceVersion": first.metadata.resourceVersion}}
    await client.patch(core.ConfigMap, "a", {**condition, "data": {"k": "1"}}, "ns")
    with pytest.raises(Conflict):
        await client.patch(core.ConfigMap, "a", {**condition, "data": {"k": "2"}}, "ns")


async def test_a_json_patch_runs_its_steps(client: Client) -> None:
    await client.create(core.ConfigMap, config_map("a", x="1"), namespace="ns")
    steps = [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "replace", "path": "/data/x", "value": "2"}]
    assert (await client.patch(core.ConfigMap, "a", steps, "ns", kind=PatchKind.JSON)).data == {"x": "2"}


async def test_a_strategic_patch_merges_lists_by_their_key(client: Client) -> None:
    await client.create(core.Node, {"metadata": {"name": "n"}})
    for name in ("A", "B"):
        patch = {"status": {"conditions": [{"type": name, "status": "True"}]}}
        await client.patch(core.Node, "n", patch, kind=PatchKind.STRATEGIC, subresource="status")
    node = await client.get(core.Node, "n")
    assert sorted(condition.type for condition in node.status.conditions) == ["A", "B"]


async def test_the_status_is_written_apart_from_the_rest(client: Client) -> None:
    await client.create(core.Node, {"metadata": {"name": "n"}})
    node = await client.patch(
        core.Node,
        "n",
        {"status": {"nodeInfo": {"kubeletVersion": "v"}}, "spec": {"unschedulable": True}},
        subresource="status",
    )
    assert node.status.nodeInfo.kubeletVersion == "v"
    assert not node.spec.unschedulable


def user(name: str) -> resource.ResourceClaimConsumerReference:
    return resource.ResourceClaimConsumerReference(resource="pods", name=name, uid=name)


async def pending_claim(client: Client, parameters: Any = None) -> tuple[resource.ResourceClaim, Any]:
    """A claim, and an allocation for it with its opaque parameters."""
    opaque = {"driver": "d.example.com", "parameters": parameters or {"kind": "K"}}
    requests = [{"name": "r", "exactly": {"deviceClassName": "c"}}]
    tree = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests, "config": [{"opaque": opaque}]}}}
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "d"}
    config = [{"source": "FromClaim", "opaque": opaque}]
    allocation = msgspec.convert({"devices": {"results": [result], "config": config}}, resource.AllocationResult)
    return await client.create(resource.ResourceClaim, tree, namespace="ns"), allocation


async def test_a_status_is_written_whole_and_keeps_what_is_opaque(client: Client) -> None:
    claim, allocation = await pending_claim(client, {"kind": "K", "none": None, "list": [None, {"x": None}]})
    first = await client.patch_status(
        claim, resource.ResourceClaimStatus(allocation, reservedFor=(user("a"), user("b")))
    )
    assert first.status == resource.ResourceClaimStatus(allocation, reservedFor=(user("a"), user("b")))
    assert first == await client.get(resource.ResourceClaim, "c", "ns")
    second = await client.patch_status(first, replace(first.status, reservedFor=(user("b"),)))
    assert second.status == replace(first.status, reservedFor=(user("b"),))
    last = await client.patch_status(second, resource.ResourceClaimStatus())
    assert last.status == resource.ResourceClaimStatus()


async def test_a_status_is_written_only_over_the_state_that_was_read(client: Client) -> None:
    claim, allocation = await pending_claim(client)
    status = resource.ResourceClaimStatus(allocation)
    await client.patch(resource.ResourceClaim, "c", {"metadata": {"labels": {"a": "b"}}}, "ns")
    with pytest.raises(Conflict):
        await client.patch_status(claim, status)
    await client.delete(resource.ResourceClaim, "c", "ns")
    with pytest.raises(NotFound):
        await client.patch_status(claim, status)
    again, _ = await pending_claim(client)
    with pytest.raises(Conflict):
        await client.patch_status(claim, status)
    assert await client.get(resource.ResourceClaim, "c", "ns") == again


async def test_a_status_that_says_nothing_new_is_not_written(client: Client) -> None:
    node = await client.create(core.Node, {"metadata": {"name": "n"}})
    assert await client.patch_status(node, node.status) == node
    assert await client.get(core.Node, "n") == node


async def test_a_status_that_is_wrong_is_refused(client: Client) -> None:
    claim, allocation = await pending_claim(client)
    with pytest.raises(Invalid, match="uid"):
        await client.patch_status(claim, resource.ResourceClaimStatus(allocation, reservedFor=(user(""),)))


async def test_a_status_is_changed_again_when_somebody_else_was_faster(client: Client) -> None:
    made = await client.create(core.Node, {"metadata": {"name": "n"}})
    ready = core.NodeCondition(type="Ready", status="True", lastTransitionTime="2026-01-01T00:00:00Z")
    tired = core.NodeCondition(type="Tired", status="False", lastTransitionTime="2026-01-01T00:00:00Z")
    await change_status(client, made, lambda node: with_conditions(node.status, ready))
    later = [replace(one, lastTransitionTime="2026-01-02T00:00:00Z") for one in (ready, tired)]
    node = await change_status(client, made, lambda node: with_conditions(node.status, *later))  # what was read is old
    assert node.status.conditions == (ready, later[1])  # the status of the first is as before, and so is its time
    fields = {"conditions": [{"type": "Ready", "status": "False"}], "phase": "Running"}
    node = await change_status(client, made, lambda node: with_fields(node.status, fields))
    assert (node.status.phase, [one.status for one in node.status.conditions]) == ("Running", ["False", "False"])


async def test_the_status_of_an_object_that_took_the_place_of_another_is_left_alone(client: Client) -> None:
    first = await client.create(core.Node, {"metadata": {"name": "n"}})
    await client.delete(core.Node, "n")
    with pytest.raises(NotFound):
        await change_status(client, first, lambda node: replace(node.status, phase="Running"))
    second = await client.create(core.Node, {"metadata": {"name": "n"}})
    with pytest.raises(Conflict):
        await change_status(client, first, lambda node: replace(node.status, phase="Running"))
    assert await client.get(core.Node, "n") == second


async def test_a_pod_is_bound_through_its_subresource(client: Client) -> None:
    await client.create(core.Pod, objects.pod(), namespace="ns")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    await client.create(core.Pod, binding, namespace="ns", name="p", subresource="binding")
    assert (await client.get(core.Pod, "p", "ns")).spec.nodeName == "n"


async def test_deletion_keeps_its_preconditions(client: Client) -> None:
    created = await client.create(core.ConfigMap, config_map("a"), namespace="ns")
    with pytest.raises(Conflict):
        await client.delete(core.ConfigMap, "a", "ns", uid="other")
    with pytest.raises(Conflict):
        await client.delete(core.ConfigMap, "a", "ns", resource_version="1")
    await client.delete(
        core.ConfigMap, "a", "ns", uid=created.metadata.uid, resource_version=created.metadata.resourceVersion
    )
    with pytest.raises(NotFound):
        await client.delete(core.ConfigMap, "a", "ns")


async def test_lists_are_selected_and_paged(client: Client) -> None:
    for number in range(5):
        await client.create(core.ConfigMap, config_map(f"c{number}", {"odd": str(number % 2)}), namespace="ns")
    assert await names(client) == ["c0", "c1", "c2", "c3", "c4"]
    assert await names(client, labels="odd=1") == ["c1", "c3"]
    assert await names(client, fields="metadata.name=c2") == ["c2"]
    page = await client.list(core.ConfigMap, "ns", limit=3)
    assert (len(page.items), page.remaining) == (3, 2)
    rest = await client.list(core.ConfigMap, "ns", limit=3, continue_=page.continue_)
    assert [item.metadata.name for item in rest.items] == ["c3", "c4"]
    assert rest.continue_ == ""


async def test_a_collection_is_deleted_by_selector(client: Client) -> None:
    for number in range(4):
        await client.create(core.ConfigMap, config_map(f"c{number}", {"odd": str(number % 2)}), namespace="ns")
    await client.delete_collection(core.ConfigMap, "ns", labels="odd=1")
    assert await names(client) == ["c0", "c2"]


async def _events(client: Client, count: int, **options: Any) -> list[WatchEvent[core.ConfigMap]]:
    seen: list[WatchEvent[core.ConfigMap]] = []
    async with aclosing(client.watch(core.ConfigMap, "ns", **options)) as watch:
        async for batch in watch:
            seen += batch
            if len(seen) >= count:
                return seen
    raise AssertionError("the watch ended early")


async def test_a_watch_tells_every_change_after_its_version(client: Client) -> None:
    await client.create(core.ConfigMap, config_map("before"), namespace="ns")
    start = (await client.list(core.ConfigMap, "ns")).resource_version
    await client.create(core.ConfigMap, config_map("a"), namespace="ns")
    watching = asyncio.create_task(_events(client, 3, resource_version=start))
    await asyncio.sleep(0)
    await client.patch(core.ConfigMap, "a", {"data": {"k": "v"}}, "ns")
    await client.delete(core.ConfigMap, "a", "ns")
    seen = await within(watching)
    assert [(event.type, event.object.metadata.name) for event in seen] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]
    versions = [int(event.resource_version) for event in seen]
    assert versions == sorted(set(versions))
    assert versions[-1] > int(seen[1].object.metadata.resourceVersion)
    assert await _events(client, 1, resource_version=seen[1].resource_version) == seen[2:]


async def test_a_watch_without_version_begins_with_what_is_there(client: Client) -> None:
    await client.create(core.ConfigMap, config_map("a"), namespace="ns")
    assert [event.type for event in await within(_events(client, 1))] == ["ADDED"]


async def test_a_watch_ends_at_its_timeout(client: Client) -> None:
    start = (await client.list(core.ConfigMap, "ns")).resource_version
    watch = client.watch(core.ConfigMap, "ns", resource_version=start, timeout=1)
    assert [event for batch in [b async for b in watch] for event in batch if event.type != "BOOKMARK"] == []


async def test_a_version_that_is_too_old_has_expired(client: Client, near: Client) -> None:
    await near.create(core.ConfigMap, config_map("a"), namespace="ns")
    for number in range(HISTORY * 2):
        await near.patch(core.ConfigMap, "a", {"data": {"k": str(number)}}, "ns")
    with pytest.raises(Expired):
        await _events(client, 1, resource_version="1")


async def test_a_version_that_is_still_to_come_has_expired(client: Client) -> None:
    with pytest.raises(Expired):
        await _events(client, 1, resource_version="1000000")


async def test_an_informer_keeps_up_with_a_real_server(client: Client) -> None:
    informer = Informer(client, core.ConfigMap, "ns", labels="keep=yes")
    seen: list[tuple[str | None, str | None]] = []
    informer.add_handler(
        lambda deltas: seen.extend((d.old and d.old.data.get("k"), d.new and d.new.data.get("k")) for d in deltas)
    )
    await client.create(core.ConfigMap, config_map("a", {"keep": "yes"}, k="1"), namespace="ns")
    task = asyncio.create_task(informer.run())
    await within(informer.synced())
    await client.patch(core.ConfigMap, "a", {"data": {"k": "2"}}, "ns")
    await client.patch(core.ConfigMap, "a", {"metadata": {"labels": None}}, "ns")  # leaves the selection
    arrived = asyncio.Event()
    informer.add_handler(lambda deltas: arrived.set() if any(d.object.metadata.name == "b" for d in deltas) else None)
    await client.create(core.ConfigMap, config_map("b", {"keep": "yes"}, k="3"), namespace="ns")
    await within(arrived.wait())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert seen == [(None, "1"), ("1", "2"), ("2", None), (None, "3")]


async def test_an_informer_over_http_survives_a_wire_that_is_cut(server: Running, near: Client) -> None:
    """Random writes while connections break: nothing is missed, deletions least of all."""
    chance, alive, state = random.Random(7), set[str](), dict[str, str]()

    def follow(deltas: Deltas[core.ConfigMap]) -> None:
        for old, new in deltas:
            if old is not None:
                assert state.pop(old.metadata.name) == old.metadata.resourceVersion
            if new is not None:
                state[new.metadata.name] = new.metadata.resourceVersion

    async with listening(server) as address:
        proxy = Proxy(address)
        async with Http(Config(await proxy.start())) as far:
            informer = Informer(far, core.ConfigMap, "ns")
            informer.add_handler(follow)
            task = asyncio.create_task(informer.run())
            for _ in range(8):
                await _random_writes(near, chance, alive)
                await asyncio.sleep(0.03)
                proxy.cut()
                await _random_writes(near, chance, alive)
                proxy.mend()
            page = await near.list(core.ConfigMap)
            expected = {item.metadata.name: item.metadata.resourceVersion for item in page.items}
            assert expected.keys() == alive
            await eventually(lambda: state == expected)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await proxy.stop()


async def _random_writes(client: Client, chance: random.Random, alive: set[str]) -> None:
    """More writes than the server remembers, so that some watches find their version expired."""
    for _ in range(chance.choice((10, HISTORY))):
        name = f"c{chance.randrange(20)}"
        if name not in alive:
            await client.create(core.ConfigMap, config_map(name), namespace="ns")
            alive.add(name)
        elif chance.random() < 0.5:
            await client.delete(core.ConfigMap, name, "ns")
            alive.discard(name)
        else:
            await client.patch(core.ConfigMap, name, {"data": {"k": str(chance.random())}}, "ns")


async def test_a_server_without_v1_is_served_in_v1beta1(server: Running, near: Client) -> None:
    """The same claims, written and read through a server that speaks only the oldest version over HTTP."""
    off = {"resource.k8s.io/v1": False, "resource.k8s.io/v1beta1": True}
    old = Running(MemoryLog(), server.api.storage.cache, ServerSettings(authenticate=False, runtime_config=off))
    sock = listen("127.0.0.1", 0)
    http = HttpServer(old.http, sock, None)
    await http.start()
    requests = [
        {"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
        {"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
    ]
    tree = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    async with Http(Config(f"http://127.0.0.1:{sock.getsockname()[1]}")) as far:
        created = await far.create(resource.ResourceClaim, tree, namespace="ns")
        assert created == await near.get(resource.ResourceClaim, "c", "ns")
        assert (await far.list(resource.ResourceClaim)).items == (created,)
        seen = await anext(far.watch(resource.ResourceClaim, resource_version="1"))
        assert [event.object for event in seen] == [created]
        patched = await far.patch(resource.ResourceClaim, "c", {"metadata": {"labels": {"a": "b"}}}, "ns")
        assert patched.metadata.labels == {"a": "b"}
    await http.stop()


async def test_what_a_server_has_it_serves(client: Client) -> None:
    for type_ in (core.ConfigMap, resource.DeviceClass):
        assert await client.serves(type_)


async def test_a_resource_behind_a_closed_gate_is_not_served_over_http(server: Running) -> None:
    async with listening(server) as address, Http(Config(address)) as far:
        assert not await far.serves(scheduling.PodGroup)
