"""Lists: selectors, pages, and the revision that they show."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import ApiError, BadRequest, Expired, Invalid, Timeout
from dray.apiserver.core import ApiServer
from dray.apiserver.read import listing
from dray.apiserver.read.listing import ContinueExpired, ContinueToken, parse_token
from dray.apiserver.read.storage import Storage, decode
from dray.store import Cache, MemoryLog, Retention
from tests.apiserver.asking import CLAIMS, PODS, Asker, claim, pod


@pytest.fixture
async def five(ask: Asker) -> Asker:
    for n in range(5):
        await ask.create(CLAIMS, claim(f"c{n}", labels={"parity": "odd" if n % 2 else "even"}))
    return ask


async def test_a_list_is_sorted_and_says_its_revision(five: Asker, cache: Cache) -> None:
    answer = await five("list", CLAIMS)
    assert [i.metadata.name for i in answer.items] == ["c0", "c1", "c2", "c3", "c4"]  # type: ignore[attr-defined]  # claims
    assert answer.revision == cache.revision


async def test_a_list_shows_one_namespace_or_all(five: Asker) -> None:
    await five.create(CLAIMS, claim("x"), namespace="other")
    assert await five.names(CLAIMS, namespace="other") == ["x"]
    assert len(await five.names(CLAIMS, namespace="")) == 6


async def test_selectors_narrow_a_list(five: Asker) -> None:
    assert await five.names(CLAIMS, label_selector="parity=odd") == ["c1", "c3"]
    assert await five.names(CLAIMS, field_selector="metadata.name=c2") == ["c2"]
    await five.create(PODS, pod("p", node="n1"))
    await five.create(PODS, pod("q"))
    assert await five.names(PODS, field_selector="spec.nodeName=n1") == ["p"]
    assert await five.names(PODS, field_selector="spec.nodeName=") == ["q"]


@pytest.mark.parametrize(
    "options", [{"label_selector": "a=b=c"}, {"field_selector": "spec.nope=1"}, {"field_selector": "x"}]
)
async def test_selectors_that_cannot_be_read_are_refused(ask: Asker, options: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        await ask("list", CLAIMS, **options)


async def pages(ask: Asker, limit: int, **options: Any) -> list[list[str]]:
    found, token = [], ""
    while True:
        answer = await ask("list", CLAIMS, limit=limit, continue_token=token, **options)
        found.append([item.metadata.name for item in answer.items])  # type: ignore[attr-defined]  # claims
        token = answer.continue_token
        if not token:
            return found


async def test_pages_follow_each_other(five: Asker) -> None:
    assert await pages(five, 2) == [["c0", "c1"], ["c2", "c3"], ["c4"]]
    assert await pages(five, 5) == [["c0", "c1", "c2", "c3", "c4"]]
    assert await pages(five, 1, label_selector="parity=odd") == [["c1"], ["c3"]]
    first = await five("list", CLAIMS, limit=2)
    assert first.remaining == 3


async def test_a_page_says_how_many_follow_unless_a_selector_chose_them(five: Asker) -> None:
    first = await five("list", CLAIMS, limit=1)
    for name in ("c1", "c2"):
        await five("delete", CLAIMS, name)
    await five.create(CLAIMS, claim("c5"))
    assert (await five("list", CLAIMS, limit=1)).remaining == 3
    assert (await five("list", CLAIMS, limit=1, continue_token=first.continue_token)).remaining == 3
    assert (await five("list", CLAIMS, limit=4)).remaining is None
    assert (await five("list", CLAIMS, limit=1, label_selector="parity=even")).remaining is None


async def test_all_pages_show_the_revision_of_the_first(five: Asker) -> None:
    first = await five("list", CLAIMS, limit=2)
    await five("delete", CLAIMS, "c3")
    await five.create(CLAIMS, claim("c30"))
    await five.patch(CLAIMS, "c4", {"metadata": {"labels": {"new": "yes"}}})
    second = await five("list", CLAIMS, limit=10, continue_token=first.continue_token)
    assert [i.metadata.name for i in second.items] == ["c2", "c3", "c4"]  # type: ignore[attr-defined]  # claims
    assert second.items[-1].metadata.labels == {"parity": "even"}  # type: ignore[attr-defined]  # a claim
    assert second.revision == first.revision


async def test_a_list_can_show_an_older_state(five: Asker, cache: Cache) -> None:
    then = str(cache.revision)
    await five("delete", CLAIMS, "c0")
    exact = await five.names(CLAIMS, resource_version=then, resource_version_match="Exact")
    assert exact[0] == "c0"
    assert (await five.names(CLAIMS, resource_version=then))[0] == "c1"
    assert (await five.names(CLAIMS, resource_version="0"))[0] == "c1"
    assert (await five.names(CLAIMS, resource_version=then, limit=1)) == ["c0"]


async def test_a_state_that_is_forgotten_is_expired() -> None:
    cache = await Cache.open(MemoryLog(), decode, retention=Retention(events=3))
    ask = Asker(ApiServer(Storage(cache)))
    for n in range(10):
        await ask.create(CLAIMS, claim(f"c{n}"))
    with pytest.raises(Expired, match="too old"):
        await ask("list", CLAIMS, resource_version="2", resource_version_match="Exact")
    old = ContinueToken(2, "resourceclaims.resource.k8s.io/ns/c1").text()
    with pytest.raises(ContinueExpired) as caught:
        await ask("list", CLAIMS, limit=2, continue_token=old)
    inconsistent = caught.value.status()["metadata"]["continue"]
    assert await ask.names(CLAIMS, limit=2, continue_token=inconsistent) == ["c2", "c3"]
    await cache.close()


@pytest.mark.local_store  # revisions begin with 0
async def test_a_revision_that_is_not_there_yet_times_out(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_FRESH_SECONDS", 0.01)
    with pytest.raises(Timeout, match="Too large resource version: 999, current: 0"):
        await ask("list", CLAIMS, resource_version="999")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"resource_version": "abc"}, BadRequest),
        ({"resource_version": "-1"}, BadRequest),
        ({"resource_version_match": "Exact"}, Invalid),
        ({"resource_version": "1", "resource_version_match": "Nearly"}, Invalid),
        ({"resource_version": "0", "resource_version_match": "Exact"}, Invalid),
        ({"continue_token": "garbage"}, BadRequest),
        ({"continue_token": "é"}, BadRequest),
        ({"continue_token": ContinueToken(1, "pods/ns/a").text()}, BadRequest),
        (
            {"continue_token": ContinueToken(1, "resourceclaims.resource.k8s.io/ns/a").text(), "resource_version": "1"},
            BadRequest,
        ),
    ],
)
async def test_options_that_make_no_sense_are_refused(ask: Asker, options: Any, error: type[ApiError]) -> None:
    with pytest.raises(error):
        await ask("list", CLAIMS, **options)


@pytest.mark.parametrize("asked", [True, False])
async def test_initial_events_belong_to_watches(ask: Asker, asked: bool) -> None:
    with pytest.raises(Invalid, match="sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list") as error:
        await ask("list", CLAIMS, send_initial_events=asked)
    assert error.value.code == 422
    with pytest.raises(Invalid, match=r"\[resourceVersionMatch: Forbidden: .*, sendInitialEvents: Forbidden: "):
        await ask("list", CLAIMS, send_initial_events=asked, resource_version_match="NotOlderThan")


def test_a_token_survives_the_way_through_a_client() -> None:
    token = ContinueToken(7, "pods/ns/a")
    assert parse_token(token.text(), "pods/") == token
