"""Create, update and patch."""

from __future__ import annotations

import asyncio
import re
import threading
from copy import deepcopy
from typing import Any

import pytest

from dray.api.errors import AlreadyExists, ApiError, BadRequest, Conflict, Invalid, NotFound
from dray.api.resources import BY_NAME
from dray.apiserver.request import JSON_PATCH, STRATEGIC_PATCH
from dray.apiserver.write import managers
from dray.store import Cache
from tests.apiserver.asking import CLAIMS, CLASSES, PODS, SLICES, Asker, claim, pod


async def test_a_new_object_gets_a_uid_a_time_and_a_version(ask: Asker) -> None:
    created = await ask.create(CLAIMS, claim("a"))
    assert re.fullmatch(r"[0-9a-f-]{36}", created.metadata.uid)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created.metadata.creationTimestamp)
    assert created.metadata.resourceVersion == str(ask.server.storage.cache.revision)
    assert (created.metadata.namespace, created.metadata.name) == ("ns", "a")
    assert await ask.get(CLAIMS, "a") is created


async def test_what_the_server_decides_is_not_taken_from_the_client(ask: Asker) -> None:
    body = claim("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", deletionTimestamp="2001-01-01T00:00:00Z")
    created = await ask.create(
        CLAIMS, {**body, "status": {"reservedFor": [{"resource": "pods", "name": "x", "uid": "y"}]}}
    )
    assert created.metadata.uid != "mine"
    assert not created.metadata.creationTimestamp.startswith("2001")
    assert created.metadata.deletionTimestamp is None
    assert created.status.reservedFor == ()


async def test_a_generated_name_ends_with_five_characters(ask: Asker) -> None:
    body = claim("")
    body["metadata"] = {"generateName": "gen-"}
    created = await ask.create(CLAIMS, body)
    assert re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", created.metadata.name)


async def test_a_name_is_needed(ask: Asker) -> None:
    with pytest.raises(Invalid, match="name or generateName is required"):
        await ask.create(CLAIMS, claim(""))


async def test_a_second_object_of_a_name_is_refused(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a"))
    with pytest.raises(AlreadyExists, match=r'resourceclaims\.resource\.k8s\.io "a" already exists'):
        await ask.create(CLAIMS, claim("a"))


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"namespace": "other"}, "does not match the namespace sent on the request"),
        ({"resourceVersion": "1"}, "resourceVersion should not be set on objects to be created"),
    ],
)
async def test_metadata_that_contradicts_the_request_is_refused(ask: Asker, metadata: Any, text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        await ask.create(CLAIMS, claim("a", **metadata))


@pytest.mark.parametrize(("size", "is_beside"), [(100, False), (100_000, True)])
async def test_what_an_update_changes_of_a_large_object_is_found_out_beside_the_loop(
    ask: Asker, monkeypatch: pytest.MonkeyPatch, size: int, is_beside: bool
) -> None:
    created = await ask.create(CLAIMS, claim("a", annotations={"text": "x" * size}))
    loops, seen, track = threading.current_thread(), list[threading.Thread](), managers.track

    def tracked(*arguments: Any) -> None:
        seen.append(threading.current_thread())
        track(*arguments)

    monkeypatch.setattr(managers, "track", tracked)
    version = created.metadata.resourceVersion
    updated = (await ask("update", CLAIMS, "a", claim("a", labels={"n": "1"}, resourceVersion=version))).object
    assert updated.metadata.labels == {"n": "1"}  # type: ignore[attr-defined]  # a claim
    assert [thread is not loops for thread in seen] == [is_beside]


async def test_an_update_needs_the_version_that_it_is_based_on(ask: Asker) -> None:
    created = await ask.create(CLAIMS, claim("a"))
    based = claim("a", labels={"n": "1"}, resourceVersion=created.metadata.resourceVersion)
    updated = (await ask("update", CLAIMS, "a", based)).object
    assert updated.metadata.labels == {"n": "1"}  # type: ignore[attr-defined]  # a claim
    with pytest.raises(Conflict, match="the object has been modified"):
        await ask("update", CLAIMS, "a", claim("a", resourceVersion=created.metadata.resourceVersion))


async def test_an_update_without_version_replaces_what_is_there(ask: Asker) -> None:
    created = await ask.create(CLAIMS, claim("a", labels={"x": "y"}))
    updated: Any = (await ask("update", CLAIMS, "a", claim("a"))).object
    assert updated.metadata.labels == {}
    assert updated.metadata.uid == created.metadata.uid
    assert updated.metadata.creationTimestamp == created.metadata.creationTimestamp


async def test_an_update_that_changes_nothing_writes_nothing(ask: Asker, cache: Cache) -> None:
    created = await ask.create(CLAIMS, claim("a"))
    before = cache.revision
    updated = (await ask("update", CLAIMS, "a", claim("a"))).object
    assert cache.revision == before
    assert updated is created
    assert await ask.patch(CLAIMS, "a", {}) is created
    assert cache.revision == before


async def test_what_does_not_exist_cannot_be_updated(ask: Asker) -> None:
    with pytest.raises(NotFound):
        await ask("update", CLAIMS, "a", claim("a"))
    with pytest.raises(NotFound):
        await ask.patch(CLAIMS, "a", {})


async def test_an_update_makes_objects_of_the_kinds_that_kubernetes_makes_so(ask: Asker) -> None:
    service: Any = {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}  # this server has no addresses
    for name, tree in (("endpoints", {}), ("limitranges", {"spec": {"limits": []}}), ("services", service)):
        assert (await ask("update", BY_NAME["", name], "e", {"metadata": {"name": "e"}, **tree})).code == 201
    with pytest.raises(NotFound):
        await ask("update", BY_NAME["", "serviceaccounts"], "e", {"metadata": {"name": "e"}})


async def test_the_name_of_the_body_must_be_that_of_the_request(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a"))
    with pytest.raises(BadRequest, match=r"the name of the object \(b\) does not match the name on the URL \(a\)"):
        await ask("update", CLAIMS, "a", claim("b"))


async def test_patches_of_every_kind_change_an_object(ask: Asker) -> None:
    await ask.create(PODS, pod("p", labels={"a": "1"}))
    merged = await ask.patch(PODS, "p", {"metadata": {"labels": {"b": "2", "a": None}}})
    assert merged.metadata.labels == {"b": "2"}
    jsoned = await ask.patch(
        PODS, "p", [{"op": "add", "path": "/metadata/labels/c", "value": "3"}], patch_type=JSON_PATCH
    )
    assert jsoned.metadata.labels == {"b": "2", "c": "3"}
    images = {"spec": {"containers": [{"name": "c", "image": "new"}]}}
    strategic = await ask.patch(PODS, "p", images, patch_type=STRATEGIC_PATCH)
    assert strategic.spec.containers[0].image == "new"
    assert strategic.spec.containers[0].terminationMessagePath == "/dev/termination-log"


async def test_a_patch_may_name_the_version_that_it_is_based_on(ask: Asker) -> None:
    created = await ask.create(CLAIMS, claim("a"))
    based = {"metadata": {"resourceVersion": created.metadata.resourceVersion, "labels": {"a": "1"}}}
    await ask.patch(CLAIMS, "a", based)
    with pytest.raises(Conflict):
        await ask.patch(CLAIMS, "a", {"metadata": {"resourceVersion": "1", "labels": {"a": "2"}}})


async def test_a_patch_through_another_version_keeps_what_that_version_cannot_say(ask: Asker) -> None:
    await ask.create(CLAIMS, claim("a"))
    patched = await ask.patch(CLAIMS, "a", {"metadata": {"labels": {"a": "1"}}}, version="v1beta1")
    assert patched.spec.devices.requests[0].exactly.deviceClassName == "gpu"


async def test_concurrent_patches_all_arrive(ask: Asker) -> None:
    import asyncio

    await ask.create(CLAIMS, claim("a"))
    await asyncio.gather(*(ask.patch(CLAIMS, "a", {"metadata": {"labels": {f"k{n}": "v"}}}) for n in range(20)))
    assert len((await ask.get(CLAIMS, "a")).metadata.labels) == 20


async def test_a_dry_run_answers_and_writes_nothing(ask: Asker, cache: Cache) -> None:
    before = cache.revision
    created = await ask.create(CLAIMS, claim("a"), dry_run=True)
    assert (created.metadata.uid != "", created.metadata.resourceVersion) == (True, "")
    assert cache.revision == before
    await ask.create(CLAIMS, claim("a"))
    with pytest.raises(AlreadyExists):
        await ask.create(CLAIMS, claim("a"), dry_run=True)
    patched = await ask.patch(CLAIMS, "a", {"metadata": {"labels": {"a": "1"}}}, dry_run=True)
    assert patched.metadata.labels == {"a": "1"}
    assert (await ask.get(CLAIMS, "a")).metadata.labels == {}


async def test_unknown_fields_are_refused_warned_about_or_dropped(ask: Asker) -> None:
    def body(name: str) -> dict[str, Any]:
        return {**claim(name), "bogus": 1}

    with pytest.raises(BadRequest, match='strict decoding error: unknown field "bogus"'):
        await ask.create(CLAIMS, body("a"), field_validation="Strict")
    warned = await ask("create", CLAIMS, body=body("b"), field_validation="Warn")
    assert warned.warnings == ['unknown field "bogus"']
    ignored = await ask("create", CLAIMS, body=body("c"), field_validation="Ignore")
    assert ignored.warnings == []


async def test_a_field_that_is_dropped_is_told_with_the_gate_that_is_off(ask: Asker) -> None:
    body = claim("a")
    exactly = {"deviceClassName": "gpu", "derivedAttributes": [{"name": "x.io/a", "expression": "1"}]}
    body["spec"] = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    created = await ask("create", CLAIMS, body=deepcopy(body), field_validation="Warn")
    assert created.warnings == ["derivedAttributes is dropped: the feature gate DRADerivedAttributes is off"]
    body["metadata"]["name"] = "b"
    assert (await ask("create", CLAIMS, body=body, field_validation="Ignore")).warnings == []
    attributes = {"x": {"strings": ["a"]}}
    spec = {
        "driver": "d.io",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d", "attributes": {"x": {"string": "a"}}}],
    }
    await ask.create(SLICES, {"metadata": {"name": "s"}, "spec": deepcopy(spec)})
    spec["devices"][0]["attributes"] |= {"y": {**attributes["x"], "string": "b"}}
    updated = await ask("update", SLICES, "s", {"metadata": {"name": "s"}, "spec": spec}, field_validation="Warn")
    assert updated.warnings == ["strings is dropped: the feature gate DRAListTypeAttributes is off"]


async def test_what_is_accepted_may_still_be_warned_about(ask: Asker) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    slice_ = {"metadata": {"name": "s"}, "spec": {"driver": "D.io", "nodeName": "n", "pool": pool}}
    created = await ask("create", SLICES, body=deepcopy(slice_))
    updated = await ask("update", SLICES, "s", slice_)
    for answer in (created, updated):
        assert answer.warnings == [
            'spec.driver: driver names should be lowercase; "D.io" contains uppercase characters'
        ]


async def test_a_generation_counts_changes_of_the_spec(ask: Asker) -> None:
    created = await ask.create(CLASSES, {"metadata": {"name": "c"}, "spec": {}})
    assert created.metadata.generation == 1
    labelled = await ask.patch(CLASSES, "c", {"metadata": {"labels": {"a": "1"}}})
    assert labelled.metadata.generation == 1
    changed = await ask.patch(CLASSES, "c", {"spec": {"selectors": [{"cel": {"expression": "true"}}]}})
    assert changed.metadata.generation == 2


async def test_status_and_spec_are_written_apart(ask: Asker) -> None:
    await ask.create(CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
    created = await ask.create(PODS, pod("p"))
    status = {"status": {"message": "hello"}, "metadata": {"labels": {"a": "1"}}, "spec": {"nodeName": "n"}}
    written = await ask.patch(PODS, "p", status, subresource="status")
    assert (written.status.message, written.spec) == ("hello", created.spec)
    kept = await ask.patch(PODS, "p", {"status": {"message": "changed"}})
    assert kept.status.message == "hello"


@pytest.mark.parametrize(
    "body", [None, 5, [], "x", {"metadata": 5}, {"kind": "Pod"}, {"apiVersion": "v2"}, {"spec": []}]
)
async def test_what_is_no_object_of_the_kind_is_a_bad_request(ask: Asker, body: Any) -> None:
    with pytest.raises(ApiError) as caught:
        await ask("create", CLAIMS, body=body)
    assert caught.value.code in (400, 422)


async def test_an_event_is_the_same_object_in_both_groups(ask: Asker) -> None:
    from dray.api.resources import BY_NAME

    core, new = BY_NAME["", "events"], BY_NAME["events.k8s.io", "events"]
    about = {"kind": "Pod", "namespace": "ns", "name": "p"}
    await ask.create(
        core, {"metadata": {"name": "e"}, "involvedObject": about, "reason": "R", "message": "m", "type": "Normal"}
    )
    assert await ask.names(new) == ["e"]
    await ask.patch(new, "e", {"note": "n"}, version="v1")
    assert (await ask.get(core, "e")).message == "n"


async def test_json_patches_that_arrive_together_take_turns(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused, so that nothing else makes them wait."""
    await ask.create(CLAIMS, claim("c"))
    monkeypatch.setattr("dray.background.turns.SLICE_SECONDS", 0.0)  # each patch takes longer than that
    operations = [{"op": "test", "path": "/metadata/name", "value": "x"}]
    patches = asyncio.gather(
        *(ask.patch(CLAIMS, "c", operations, patch_type=JSON_PATCH) for _ in range(50)), return_exceptions=True
    )
    turns = 0
    while not patches.done():
        turns += 1
        await asyncio.sleep(0)
    assert all(isinstance(outcome, ApiError) for outcome in await patches)
    assert turns > 40
