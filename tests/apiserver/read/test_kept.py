"""Encoded bytes that are kept for the next reader."""

from __future__ import annotations

from dray.apiserver.read.kept import EncodedCache
from tests.waiting import eventually


def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    cache = EncodedCache(most=10)
    cache.put("a", b"1234")
    cache.put("b", b"1234")
    assert (cache.get("a"), cache.get("b")) == (b"1234", b"1234")
    cache.put("c", b"1234")
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, b"1234", b"1234")
    cache.put("large", b"0" * 11)
    assert len(cache) == 0


async def test_what_is_old_goes_although_nothing_comes_after_it() -> None:
    cache = EncodedCache(seconds=0.01)
    cache.put("a", b"1234")
    await eventually(lambda: len(cache) == 0)
    cache.put("b", b"1234")
    assert cache.get("b") == b"1234"
    await eventually(lambda: len(cache) == 0)


async def test_what_came_since_the_last_look_stays_when_others_go() -> None:
    cache = EncodedCache(most=10, seconds=60)
    cache.put("a", b"1234")
    cache._look(60)
    cache.put("b", b"1234")
    cache.put("c", b"1234")  # and "a" goes for it
    cache._look(60)
    assert (cache.get("b"), cache.get("c")) == (b"1234", b"1234")
    cache._look(60)
    assert len(cache) == 0
