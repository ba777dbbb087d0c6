"""A publisher that waits: for all its pools before it says so, and for the news of its own writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from dray.api.errors import ServiceUnavailable
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running
from dray.client import Client, InProcess
from tests.driver.places import background
from tests.driver.test_publisher import names, pool, publisher, slices
from tests.waiting import eventually, linger, within


class Picky(InProcess):
    """A client whose server is away for one pool."""

    refused = "b"

    async def create(self, type_: Any, obj: Any, **options: Any) -> Any:
        if obj["spec"]["pool"]["name"] == self.refused:
            raise ServiceUnavailable("the server is away")
        return await super().create(type_, obj, **options)


async def test_all_pools_are_written_before_it_says_so(server: Running, client: Client) -> None:
    picky = Picky(server.api, ADMIN)
    one = publisher(picky)
    one.publish({"a": pool(1, "a"), "b": pool(1, "b")})
    async with background(one.run()):
        await eventually(lambda: written(client, ["a0"]))
        said = asyncio.create_task(one.published())
        await linger(0.05)
        assert not said.done()
        picky.refused = ""
        await within(said)
        assert await names(client) == ["a0", "b0"]


async def written(client: Client, expected: list[str]) -> bool:
    return await names(client) == expected


class Deaf(InProcess):
    """A client whose watches tell nothing until they may."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.hears = asyncio.Event()

    async def watch(self, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        async for batch in super().watch(*arguments, **options):
            await self.hears.wait()
            yield batch


async def test_nothing_is_written_twice_while_its_news_are_on_their_way(server: Running, client: Client) -> None:
    deaf = Deaf(server.api, ADMIN)
    one = publisher(deaf)
    one.publish({"p": pool(1)})
    async with background(one.run()):
        await within(one.published())
        one.publish({"p": pool(2)})
        await linger(0.2)
        assert await names(client) == ["d0"]
        deaf.hears.set()
        await within(one.published())
        assert await names(client) == ["d0", "d1"]
        assert len(await slices(client)) == 1
