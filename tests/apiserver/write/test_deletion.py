"""Deletion: at once, with finalizers, with grace, with preconditions, and of whole collections."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dray.api.errors import BadRequest, Conflict, Invalid, NotFound
from dray.api.times import timestamp
from dray.apiserver.request import RequestOptions
from dray.apiserver.write.subresources import delete_options
from dray.store import Cache
from tests.apiserver.asking import CLAIMS, CLASSES, NAMESPACES, PODS, Asker, claim, pod


async def gone(ask: Asker, resource: object, name: str) -> bool:
    try:
        await ask.get(resource, name)  # type: ignore[arg-type]  # a resource
    except NotFound:
        return True
    return False


async def test_an_object_without_finalizers_goes_at_once(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a"))
    answer = await ask("delete", CLAIMS, "a")
    assert answer.object.metadata.name == "a"  # type: ignore[attr-defined]  # a claim
    assert await gone(ask, CLAIMS, "a")
    with pytest.raises(NotFound):
        await ask("delete", CLAIMS, "a")


async def test_most_kinds_are_answered_with_a_status(ask: Asker) -> None:
    created = await ask.create(NAMESPACES, {"metadata": {"name": "x"}})
    await ask(
        "update", NAMESPACES, "x", {"metadata": {"name": "x"}, "spec": {"finalizers": []}}, subresource="finalize"
    )
    answer = await ask("delete", NAMESPACES, "x")
    assert answer.tree is not None
    assert answer.tree["details"] == {"name": "x", "kind": "namespaces", "uid": created.metadata.uid}


async def test_finalizers_hold_an_object_until_the_last_is_taken_off(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a", finalizers=["example.com/one", "example.com/two"]))
    marked = (await ask("delete", CLAIMS, "a")).object
    assert marked.metadata.deletionTimestamp  # type: ignore[attr-defined]  # a claim
    again = (await ask("delete", CLAIMS, "a")).object
    assert again == marked
    await ask.patch(CLAIMS, "a", {"metadata": {"finalizers": ["example.com/two"]}})
    assert not await gone(ask, CLAIMS, "a")
    await ask.patch(CLAIMS, "a", {"metadata": {"finalizers": None}})
    assert await gone(ask, CLAIMS, "a")


async def test_a_mark_cannot_be_taken_back(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a", finalizers=["example.com/one"]))
    await ask("delete", CLAIMS, "a")
    patched = await ask.patch(CLAIMS, "a", {"metadata": {"deletionTimestamp": None, "labels": {"a": "1"}}})
    assert patched.metadata.deletionTimestamp


async def test_preconditions_guard_against_deleting_another_object(ask: Asker) -> None:
    created = await ask.create(CLAIMS, claim("a"))
    with pytest.raises(Conflict, match=r"the UID in the precondition \(wrong\) does not match the UID in record"):
        await ask("delete", CLAIMS, "a", precondition_uid="wrong")
    with pytest.raises(Conflict, match="ResourceVersion in the precondition"):
        await ask("delete", CLAIMS, "a", precondition_resource_version="999")
    version = created.metadata.resourceVersion
    await ask("delete", CLAIMS, "a", precondition_uid=created.metadata.uid, precondition_resource_version=version)
    assert await gone(ask, CLAIMS, "a")


async def test_a_pod_without_node_goes_at_once(ask: Asker) -> None:
    await ask.create(PODS, pod("p"))
    await ask("delete", PODS, "p")
    assert await gone(ask, PODS, "p")


async def test_a_pod_on_a_node_waits_for_the_node(ask: Asker) -> None:
    await ask.create(PODS, pod("p", node="n"))
    marked = (await ask("delete", PODS, "p")).object.metadata  # type: ignore[attr-defined]  # a pod
    assert marked.deletionGracePeriodSeconds == 30
    until = datetime.fromisoformat(marked.deletionTimestamp) - datetime.now(UTC)
    assert timedelta(seconds=25) < until <= timedelta(seconds=30)
    sooner = (await ask("delete", PODS, "p", grace_period_seconds=5)).object.metadata  # type: ignore[attr-defined]  # a pod
    assert sooner.deletionGracePeriodSeconds == 5
    assert sooner.deletionTimestamp < marked.deletionTimestamp
    later = (await ask("delete", PODS, "p", grace_period_seconds=60)).object.metadata  # type: ignore[attr-defined]  # a pod
    assert later.deletionGracePeriodSeconds == 5
    await ask("delete", PODS, "p", grace_period_seconds=0)
    assert await gone(ask, PODS, "p")


async def test_a_pod_that_has_ended_does_not_wait(ask: Asker) -> None:
    await ask.create(PODS, pod("p", node="n"))
    await ask.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, subresource="status")
    await ask("delete", PODS, "p")
    assert await gone(ask, PODS, "p")


async def test_how_dependents_are_treated_is_left_to_the_garbage_collector(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a"))
    answer = await ask("delete", CLAIMS, "a", propagation_policy="Foreground")
    assert answer.code == 202
    assert answer.object.metadata.finalizers == ("foregroundDeletion",)  # type: ignore[attr-defined]  # a claim
    orphaned = (await ask("delete", CLAIMS, "a", propagation_policy="Orphan")).object
    assert orphaned.metadata.finalizers == ("orphan",)  # type: ignore[attr-defined]  # a claim
    await ask("delete", CLAIMS, "a", propagation_policy="Background")
    assert await gone(ask, CLAIMS, "a")


async def test_unknown_policies_and_negative_grace_are_refused(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a"))
    with pytest.raises(Invalid, match="propagationPolicy") as caught:
        await ask("delete", CLAIMS, "a", propagation_policy="Sometimes")
    assert [cause["reason"] for cause in caught.value.details["causes"]] == ["FieldValueNotSupported"]
    with pytest.raises(Invalid, match="gracePeriodSeconds"):
        await ask("delete", CLAIMS, "a", grace_period_seconds=-1)


async def test_a_namespace_waits_until_it_is_finalized(ask: Asker) -> None:
    await ask.create(NAMESPACES, {"metadata": {"name": "x"}})
    marked = (await ask("delete", NAMESPACES, "x")).object
    assert marked.status.phase == "Terminating"  # type: ignore[attr-defined]  # a namespace
    assert not await gone(ask, NAMESPACES, "x")
    await ask(
        "update", NAMESPACES, "x", {"metadata": {"name": "x"}, "spec": {"finalizers": []}}, subresource="finalize"
    )
    assert await gone(ask, NAMESPACES, "x")


async def test_a_collection_is_deleted_through_its_selectors(ask: Asker) -> None:
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
        await ask.create(CLAIMS, claim(name, labels={"colour": colour}))
    await ask.create(CLAIMS, claim("a", labels={"colour": "red"}), namespace="other")
    answer = await ask("deletecollection", CLAIMS, label_selector="colour=red")
    assert [item.metadata.name for item in answer.items] == ["a", "c"]  # type: ignore[attr-defined]  # claims
    assert await ask.names(CLAIMS, namespace="") == ["b", "a"]


async def test_others_have_turns_while_a_large_collection_is_deleted(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        await ask.create(CLASSES, {"metadata": {"name": f"c{number}"}, "spec": {}})
    monkeypatch.setattr("dray.background.turns.SLICE_SECONDS", 0.0)  # each deletion takes longer than that
    deleting = asyncio.ensure_future(ask("deletecollection", CLASSES))
    turns = 0
    while not deleting.done():
        turns += 1
        await asyncio.sleep(0)
    assert await ask.names(CLASSES) == []
    assert turns > 100


async def test_a_dry_run_deletes_nothing(ask: Asker) -> None:
    await ask.create(CLASSES, {"metadata": {"name": "c"}, "spec": {}})
    await ask("delete", CLASSES, "c", dry_run=True)
    assert not await gone(ask, CLASSES, "c")


def test_delete_options_come_from_a_body_too() -> None:
    body = {"gracePeriodSeconds": 3, "preconditions": {"uid": "u"}, "orphanDependents": True, "dryRun": ["All"]}
    options = delete_options(RequestOptions(), body)
    assert (options.grace_period_seconds, options.precondition_uid, options.propagation_policy) == (3, "u", "Orphan")
    assert options.dry_run


@pytest.mark.parametrize(
    "body",
    [
        [1],
        {"gracePeriodSeconds": "x"},
        {"preconditions": 1},
        {"preconditions": {"uid": 1}},
        {"dryRun": ["Some"]},
        {"propagationPolicy": 1},
        {"orphanDependents": True, "propagationPolicy": "Orphan"},
    ],
)
def test_delete_options_that_make_no_sense_are_refused(body: object) -> None:
    with pytest.raises(BadRequest):
        delete_options(RequestOptions(), body)


async def test_a_propagation_policy_leaves_finalizers_of_others(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a", finalizers=["example.com/others"]))
    await ask("delete", CLAIMS, "a", propagation_policy="Foreground")
    assert (await ask.get(CLAIMS, "a")).metadata.finalizers == ("example.com/others", "foregroundDeletion")
    await ask("delete", CLAIMS, "a", propagation_policy="Background")
    assert (await ask.get(CLAIMS, "a")).metadata.finalizers == ("example.com/others",)


async def test_two_who_delete_the_same_collection_both_succeed(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        await ask.create(CLAIMS, claim(name))
    commit = Cache.commit

    async def slowly(cache: Cache, *arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(0)  # the others get their turn, as with a store on a disk
        return await commit(cache, *arguments, **options)

    monkeypatch.setattr(Cache, "commit", slowly)
    await asyncio.gather(ask("deletecollection", CLAIMS), ask("deletecollection", CLAIMS))
    assert await ask.names(CLAIMS) == []


async def test_a_shorter_grace_counts_from_the_first_deletion(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = 1_000_000_000
    await ask.create(PODS, pod("p", node="n"))
    with monkeypatch.context() as earlier:
        earlier.setattr("dray.apiserver.write.deletion.now", lambda seconds=0: timestamp(begun + seconds))
        await ask("delete", PODS, "p", grace_period_seconds=1000)
    await ask("delete", PODS, "p", grace_period_seconds=10)
    assert (await ask.get(PODS, "p")).metadata.deletionTimestamp == timestamp(begun + 10)
