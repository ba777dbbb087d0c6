"""Stored bytes and what is sent of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dray.api.decode import to_object
from dray.api.resources import RESOURCES
from dray.apiserver.read.storage import Form, Storage, at_revision, decode, encode, written
from dray.store import Cache, KeyVersion, Op
from tests.apiserver.asking import CLAIMS, CLASSES, PODS, Asker, claim, pod


def test_the_bytes_of_every_stored_resource_begin_alike() -> None:
    for resource in RESOURCES:
        if resource.alias_of is None and "get" in resource.verbs:
            obj = to_object(resource, {"metadata": {"name": "a"}})
            assert encode(obj).startswith(Form(resource, resource.stored).head + b'"name":"a"')


@given(
    st.text(max_size=20), st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3), st.integers(1, 2**60)
)
def test_a_version_is_spliced_into_whatever_bytes(name: str, labels: dict[str, str], revision: int) -> None:
    obj = to_object(CLAIMS, {"metadata": {"name": name or "x", "labels": labels}, "spec": {"devices": {}}})
    version = KeyVersion("k", encode(obj), revision, revision, None, at_revision(obj, revision))
    storage = Storage(Cache.__new__(Cache))
    form = storage.form(CLAIMS, "v1")
    whole = json.loads(storage.whole(form, version))
    assert whole == json.loads(encode(obj))
    assert whole["metadata"]["resourceVersion"] == str(revision)
    item = json.loads(storage.item(form, version))
    assert {"apiVersion": whole["apiVersion"], "kind": whole["kind"], **item} == whole


async def test_other_versions_are_converted_once(ask: Asker, cache: Cache) -> None:
    await ask.create(CLAIMS, claim("a"))
    storage = ask.server.storage
    version = cache.get(CLAIMS.key("ns", "a"))
    assert version is not None
    form = storage.form(CLAIMS, "v1beta1")
    tree = json.loads(storage.whole(form, version))
    assert (tree["apiVersion"], tree["metadata"]["resourceVersion"]) == (
        "resource.k8s.io/v1beta1",
        str(version.revision),
    )
    assert tree["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu"
    assert storage._value(form, version) is storage._value(form, version)


async def test_what_is_read_from_the_store_is_what_was_written(cache: Cache) -> None:
    obj = to_object(PODS, pod("p", labels={"a": "b"}))
    await cache.commit([Op("pods/ns/p", encode(obj))])
    version = cache.get("pods/ns/p")
    assert version is not None
    found: Any = version.object
    assert found == at_revision(obj, version.revision)
    assert decode("pods/ns/p", encode(to_object(PODS, pod("p"))), 7).metadata.resourceVersion == "7"  # type: ignore[attr-defined]  # a pod


async def test_a_written_object_is_shared_instead_of_decoded(cache: Cache) -> None:
    obj = to_object(PODS, pod("p"))
    revision = await cache.commit([written("pods/ns/p", obj, expected=0)])
    version = cache.get("pods/ns/p")
    assert version is not None
    assert version.object is obj
    assert obj.metadata.resourceVersion == str(revision)  # type: ignore[attr-defined]  # a pod


async def test_guards_learn_that_something_has_changed(ask: Asker) -> None:
    storage = ask.server.storage
    claims, both = storage.last_change(CLAIMS), storage.last_change(CLAIMS, CLASSES)
    before, of_both = claims.revision, both.revision
    await ask.create(CLASSES, {"metadata": {"name": "c"}, "spec": {}})
    assert claims.revision == before
    assert both.revision > of_both
    await ask.create(CLAIMS, claim("a"))
    created = claims.revision
    assert created > before
    await ask("delete", CLAIMS, "a")
    assert claims.revision > created
    assert list(storage.list(CLAIMS)) == []
