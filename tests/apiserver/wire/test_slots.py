"""Who waits for whom where requests are worked on one after the other."""

from __future__ import annotations

import asyncio

from dray.api.users import ADMIN, User
from dray.apiserver.wire.slots import OneByOne
from dray.client.clock import settle


async def most_at_once(*users: User) -> int:
    """How many requests of these users are worked on at the same time."""
    turns, working, most = OneByOne(), 0, 0
    ends = asyncio.Event()

    async def work(user: User) -> None:
        nonlocal working, most
        async with turns.turn(user):
            working += 1
            most = max(most, working)
            await ends.wait()
            working -= 1

    tasks = [asyncio.create_task(work(user)) for user in users]
    await settle()
    ends.set()
    await asyncio.gather(*tasks)
    assert len(turns) == 0
    return most


async def test_requests_of_one_user_wait_for_each_other_and_for_nobody_else() -> None:
    assert await most_at_once(User("a"), User("a"), User("a")) == 1
    assert await most_at_once(User("a"), User("b"), User("a"), User("c")) == 3


async def test_whoever_mends_a_cluster_does_not_wait() -> None:
    assert await most_at_once(ADMIN, ADMIN, User("a")) == 3


async def test_a_request_that_goes_while_it_waits_leaves_the_turn_to_others() -> None:
    turns = OneByOne()
    async with turns.turn(User("a")):
        gone = asyncio.create_task(turns.turn(User("a")).__aenter__())
        await settle()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    async with turns.turn(User("a")):
        pass
