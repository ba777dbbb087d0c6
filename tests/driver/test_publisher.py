"""Publishing against a real API server: minimal, repaired, refused, withdrawn."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from dray.api.errors import ApiError, Invalid, ServiceUnavailable
from dray.api.gates import FeatureGates
from dray.api.types.core import Node
from dray.api.types.resource import ResourceSlice
from dray.api.users import ADMIN, User
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Client, InProcess
from dray.driver import Pool, Publisher, device
from tests.driver.conftest import NODE
from tests.driver.places import background
from tests.e2e.interference import interposed, meanwhile
from tests.waiting import eventually

DRIVER = "d.example.com"
REPAIR = 0.05


class Counting(InProcess):
    """A client that counts writes, and can lose its server."""

    writes = 0
    down = False

    async def create(self, *args: Any, **options: Any) -> Any:
        return await super().create(*args, **options) if self._counted() else None

    async def update(self, *args: Any, **options: Any) -> Any:
        return await super().update(*args, **options) if self._counted() else None

    async def delete(self, *args: Any, **options: Any) -> None:
        if self._counted():
            await super().delete(*args, **options)

    def _counted(self) -> bool:
        if self.down:
            raise ServiceUnavailable("the server is away")
        self.writes += 1
        return True


@pytest.fixture
async def counting(server: Running, client: Client) -> Counting:
    return Counting(server.api, ADMIN)


def pool(count: int, prefix: str = "d", **more: Any) -> Pool:
    return Pool([device(f"{prefix}{number}") for number in range(count)], **more)


async def slices(client: Client) -> list[ResourceSlice]:
    return sorted((await client.list(ResourceSlice)).items, key=lambda one: one.metadata.name)


async def names(client: Client) -> list[str]:
    return [one.name for slice_ in await slices(client) for one in slice_.spec.devices]


def publisher(client: Client, node: str = NODE, **more: Any) -> Publisher:
    return Publisher(client, DRIVER, node, repair_after=REPAIR, **more)


async def test_slices_belong_to_the_node_and_are_written_once(counting: Counting) -> None:
    one = publisher(counting)
    one.publish({"p": pool(200)})
    async with background(one.run()):
        await one.published()
        first, second = await slices(counting)
        node = await counting.get(Node, NODE)
        assert [(owner.kind, owner.uid, owner.controller) for owner in first.metadata.ownerReferences] == [
            ("Node", node.metadata.uid, True)
        ]
        assert (first.spec.nodeName, len(first.spec.devices), len(second.spec.devices)) == (NODE, 128, 72)
        one.publish({"p": pool(200)})
        await asyncio.sleep(4 * REPAIR)
        assert counting.writes == 2


async def test_changes_that_fit_into_one_write_keep_the_generation_and_others_raise_it(counting: Counting) -> None:
    one = publisher(counting)
    one.publish({"p": pool(200), "q": pool(1, "q")})
    async with background(one.run()):
        await one.published()
        one.publish({"p": pool(199), "q": pool(1, "q")})
        await one.published()
        assert counting.writes == 4
        assert [each.spec.pool.generation for each in await slices(counting)] == [1, 1, 1]
        one.publish({"p": pool(199, "e"), "q": pool(1, "q")})
        await one.published()
        assert counting.writes == 6
        assert sorted((each.spec.pool.name, each.spec.pool.generation) for each in await slices(counting)) == [
            ("p", 2),
            ("p", 2),
            ("q", 1),
        ]


async def test_a_pool_that_is_no_longer_named_disappears(client: Client) -> None:
    one = publisher(client)
    one.publish({"p": pool(1), "q": pool(1, "q")})
    async with background(one.run()):
        await one.published()
        one.publish({"q": pool(1, "q")})
        await one.published()
        assert await names(client) == ["q0"]


async def test_slices_that_others_delete_or_change_or_add_are_put_right(client: Client) -> None:
    one = publisher(client)
    one.publish({"p": pool(3)})
    async with background(one.run()):
        await one.published()
        [before] = await slices(client)

        async def right() -> bool:
            return await names(client) == ["d0", "d1", "d2"]

        await client.delete(ResourceSlice, before.metadata.name)
        await eventually(right)
        [after] = await slices(client)
        assert after.metadata.uid != before.metadata.uid
        tree = msgspec.to_builtins(after)
        tree["spec"]["devices"] = []
        await client.update(ResourceSlice, tree)
        await eventually(right)
        stranger = msgspec.to_builtins(after)
        stranger["metadata"] = {"name": "stranger"}
        stranger["spec"]["pool"]["generation"] = 40
        await client.create(ResourceSlice, stranger)
        await eventually(right)
        [final] = await slices(client)
        assert final.spec.pool.generation >= 40


async def test_a_restart_finds_everything_as_it_was(counting: Counting) -> None:
    for _ in range(2):
        one = publisher(counting)
        one.publish({"p": pool(200)})
        async with background(one.run()):
            await one.published()
            await asyncio.sleep(2 * REPAIR)
    assert counting.writes == 2


async def test_two_instances_of_a_driver_do_not_fight(counting: Counting) -> None:
    old, new = publisher(counting), publisher(counting)
    old.publish({"p": pool(200)})
    async with background(old.run()):
        await old.published()
        new.publish({"p": pool(200)})
        async with background(new.run()):
            await new.published()
            await asyncio.sleep(6 * REPAIR)
            assert counting.writes == 2


async def test_network_attached_pools_are_published_without_a_node_and_only_there(client: Client) -> None:
    pools = {"net": pool(1, "net", all_nodes=True), "local": pool(1, "local")}
    central, local = publisher(client, node=""), publisher(client)
    for one in (central, local):
        one.publish(pools)
    async with background(central.run()), background(local.run()):
        await central.published()
        await local.published()
        await asyncio.sleep(3 * REPAIR)
        found = {one.spec.pool.name: one for one in await slices(client)}
        assert found.keys() == {"net", "local"}
        assert (found["net"].spec.allNodes, found["net"].spec.nodeName) == (True, None)
        assert found["net"].metadata.ownerReferences == ()
        await client.delete(ResourceSlice, found["net"].metadata.name)

        async def back() -> bool:
            return len(await slices(client)) == 2

        await eventually(back)


async def test_withdrawing_deletes_the_slices_of_this_driver_on_this_node_alone(client: Client) -> None:
    await client.create(Node, {"metadata": {"name": "other"}})
    mine, other = publisher(client), publisher(client, node="other")
    for one, name in ((mine, "p"), (other, "q")):
        one.publish({name: pool(1)})
        async with background(one.run()):
            await one.published()
    await mine.withdraw()
    assert [one.spec.nodeName for one in await slices(client)] == ["other"]


async def test_a_refusal_is_told_and_does_not_keep_other_pools_or_later_changes_out(client: Client) -> None:
    errors: list[tuple[str, ApiError]] = []
    one = publisher(client, on_error=lambda pool, error: errors.append((pool, error)))
    one.publish({"bad": Pool([device("Not-A-Label")]), "good": pool(1)})
    async with background(one.run()):

        async def told() -> bool:
            return bool(errors) and await names(client) == ["d0"]

        await eventually(told)
        name, error = errors[0]
        assert name == "bad"
        assert isinstance(error, Invalid)
        assert "spec.devices[0].name" in str(error)
        one.publish({"bad": pool(1, "fine"), "good": pool(1)})
        await one.published()
        assert sorted(await names(client)) == ["d0", "fine0"]


@pytest.mark.parametrize("broken", [{"nme": "d"}, {"name": 1}, {"name": "d", "attributes": 3}])
async def test_devices_that_are_none_are_an_error_and_not_the_end(client: Client, broken: Any) -> None:
    errors: list[str] = []
    one = publisher(client, on_error=lambda _, error: errors.append(str(error)))
    one.publish({"p": Pool([broken])})
    async with background(one.run()) as task:
        await eventually(lambda: bool(errors))
        one.publish({"p": pool(1)})
        await one.published()
        assert not task.done()


async def test_a_server_that_is_away_is_asked_again(counting: Counting) -> None:
    errors: list[ApiError] = []
    counting.down = True
    one = publisher(counting, on_error=lambda _, error: errors.append(error))
    one.publish({"p": pool(1)})
    async with background(one.run()):
        await eventually(lambda: len(errors) > 1)
        counting.down = False
        await one.published()
        assert await names(counting) == ["d0"]


async def test_a_node_that_does_not_exist_yet_is_waited_for(server: Running) -> None:
    client = InProcess(server.api, ADMIN)
    errors: list[ApiError] = []
    one = publisher(client, node="late", on_error=lambda _, error: errors.append(error))
    one.publish({"p": pool(1)})
    async with background(one.run()):
        await eventually(lambda: bool(errors))
        await client.create(Node, {"metadata": {"name": "late"}})
        await one.published()
        assert await names(client) == ["d0"]


async def test_fields_that_the_server_drops_are_told_once_and_not_written_again() -> None:
    running = await Running.open(ServerSettings(authenticate=False, gates=FeatureGates.parse("DRADeviceTaints=false")))
    client = Counting(running.api, ADMIN)
    await client.create(Node, {"metadata": {"name": NODE}})
    client.writes = 0
    errors: list[str] = []
    one = publisher(client, on_error=lambda _, error: errors.append(str(error)))
    one.publish({"p": Pool([device("d", taints=[{"key": "k", "effect": "NoSchedule"}])])})
    async with background(one.run()):
        await one.published()
        await asyncio.sleep(4 * REPAIR)
    assert client.writes == 1
    assert len(errors) == 1
    assert "devices.taints" in errors[0]
    await running.close()


async def test_a_driver_without_permission_says_so_in_its_log(
    server: Running, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    one = publisher(InProcess(server.api, User("nobody")))
    one.publish({"p": pool(1)})
    async with background(one.run()):
        await eventually(lambda: "forbidden" in caplog.text)


async def test_what_others_write_into_a_slice_meanwhile_stays(client: Client) -> None:
    one = publisher(client)
    one.publish({"p": pool(1)})
    async with background(one.run()):
        await one.published()
    [before] = await slices(client)
    name = before.metadata.name

    async def label() -> None:
        await client.patch(ResourceSlice, name, {"metadata": {"labels": {"seen": "yes"}}})

    late = publisher(interposed(client, meanwhile(lambda write: write.verb == "update", label)))
    late.publish({"p": pool(2)})
    async with background(late.run()):
        await late.published()
        [after] = await slices(client)
        assert ([each.name for each in after.spec.devices], after.metadata.labels) == (["d0", "d1"], {"seen": "yes"})


async def test_a_slice_that_took_the_place_of_one_to_delete_is_left_alone(client: Client) -> None:
    one = publisher(client)
    one.publish({"p": pool(1)})
    async with background(one.run()):
        await one.published()
    [before] = await slices(client)
    name = before.metadata.name
    tree = msgspec.to_builtins(before)
    tree["spec"] |= {"driver": "other.example.com"}
    tree["metadata"] = {"name": name}

    async def replace() -> None:
        await client.delete(ResourceSlice, name)
        await client.create(ResourceSlice, tree)

    late = publisher(interposed(client, meanwhile(lambda write: write.verb == "delete", replace)))
    late.publish({"q": pool(1, "q")})

    async def replaced() -> bool:
        return [one.spec.driver for one in await slices(client) if one.metadata.name == name] == ["other.example.com"]

    async with background(late.run()):
        await eventually(replaced)
        await asyncio.sleep(4 * REPAIR)
        assert await replaced()
