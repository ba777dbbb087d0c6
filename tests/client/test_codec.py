"""Reading answers of servers of this, an older and a newer release."""

import gc
import weakref

import msgspec
import pytest

from dray.api.custom import custom_resource
from dray.api.errors import BadRequest, Expired, InternalError, NotFound
from dray.api.resources import BY_NAME
from dray.api.types import authentication, core, meta, resource
from dray.api.types.apiextensions import CustomResourceDefinition
from dray.client.codec import Codec
from dray.client.interface import resource_of, type_of
from tests.apiserver.custom.converting import definition, screen

PODS = BY_NAME["", "pods"]
CLAIMS = BY_NAME["resource.k8s.io", "resourceclaims"]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "resourceVersion": "7"},
    "spec": {"containers": [{"name": "c"}]},
}


def json(tree: object) -> bytes:
    return msgspec.json.encode(tree)


@pytest.fixture
def codec() -> Codec:
    return Codec(PODS, "v1")


def test_an_object_is_typed(codec: Codec) -> None:
    pod = codec.object(json(POD))
    assert isinstance(pod, core.Pod)
    assert pod.spec.containers[0].name == "c"


def test_fields_of_a_newer_release_and_nulls_are_overlooked(codec: Codec) -> None:
    spec = {"containers": [{"name": "c", "newer": {"x": 1}}], "volumes": None, "alsoNewer": 3}
    pod = codec.object(json(POD | {"spec": spec, "top": []}))
    assert pod == codec.object(json(POD))


def test_items_of_a_list_need_no_kind(codec: Codec) -> None:
    item = {"metadata": {"name": "p"}, "spec": {"newer": 1}}
    body = {"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "c", "remainingItemCount": 3}}
    page = codec.page(json(body | {"items": [item]}))
    assert (page.resource_version, page.continue_, page.remaining) == ("9", "c", 3)
    assert [(pod.kind, pod.metadata.name) for pod in page.items] == [("Pod", "p")]
    assert codec.page(json(body | {"items": None})).items == ()


def test_events_are_typed_up_to_an_error(codec: Codec) -> None:
    lines = [
        json({"type": "ADDED", "object": POD}),
        json({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "8"}, "new": 1}}),
        json({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}}),
    ]
    events, error = codec.events(lines)
    assert [(event.type, event.resource_version) for event in events] == [("ADDED", "7"), ("BOOKMARK", "8")]
    assert isinstance(error, Expired)


def test_subresources_answer_with_their_own_kind(codec: Codec) -> None:
    assert isinstance(codec.object(json({"kind": "Status", "status": "Success"})), meta.Status)
    token = codec.object(json({"kind": "TokenRequest", "status": {"token": "t", "expirationTimestamp": None}}))
    assert isinstance(token, authentication.TokenRequest)
    assert token.status.token == "t"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"3", b'{"kind":"Pod","spec":3}', b'{"kind":"Odd"}', b"\xff"])
def test_what_cannot_be_read_is_an_internal_error(codec: Codec, body: bytes) -> None:
    with pytest.raises(InternalError):
        codec.object(body)


@pytest.mark.parametrize("body", [b"{}", b'{"items":[3]}', b'{"metadata":3}', b"[]", b'{"items":3}'])
def test_a_strange_list_never_crashes(codec: Codec, body: bytes) -> None:
    try:
        assert codec.page(body).items == ()
    except InternalError:
        assert body != b"{}"


@pytest.mark.parametrize(
    "line", [b"{}", b"nonsense", b'{"type":"ADDED","object":3}', b'{"type":"ERROR","object":null}']
)
def test_a_strange_event_never_crashes(codec: Codec, line: bytes) -> None:
    events, error = codec.events([line])
    assert events == []
    assert isinstance(error, InternalError)


def _claim_asking(**request: object) -> dict[str, object]:
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", **request}]}}}


def test_an_older_version_is_converted_both_ways() -> None:
    old = Codec(CLAIMS, "v1beta1")
    body = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", **_claim_asking(deviceClassName="gpu")}
    claim = old.object(json(body))
    assert isinstance(claim, resource.ResourceClaim)
    assert claim.apiVersion == "resource.k8s.io/v1"
    assert claim.spec.devices.requests[0].exactly.deviceClassName == "gpu"
    sent = msgspec.json.decode(old.encode(_claim_asking(exactly={"deviceClassName": "gpu"})))
    assert sent["apiVersion"] == "resource.k8s.io/v1beta1"
    assert sent["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu"


def test_a_patch_of_an_older_version_may_touch_metadata_and_status_only() -> None:
    old = Codec(CLAIMS, "v1beta1")
    assert msgspec.json.decode(old.encode_patch({"status": {"x": 1}})) == {"status": {"x": 1}}
    with pytest.raises(BadRequest, match="only in version v1beta1"):
        old.encode_patch({"spec": {}})
    with pytest.raises(BadRequest, match="cannot be translated"):
        old.encode_patch([{"op": "add", "path": "/spec/x", "value": 1}])


def test_kind_and_version_are_added_to_what_is_sent(codec: Codec) -> None:
    assert msgspec.json.decode(codec.encode({"metadata": {}})) == {"apiVersion": "v1", "kind": "Pod", "metadata": {}}


def test_objects_that_only_a_webhook_could_translate_are_read_in_the_version_that_is_served() -> None:
    tree = definition({"url": "https://convert.example.com"}, "v1")
    tree["spec"]["versions"][0]["served"] = False
    tree["status"] = {"acceptedNames": {"plural": "screens", "kind": "Screen"}}
    screens = custom_resource(msgspec.convert(tree, CustomResourceDefinition))
    codec = Codec(screens, "v2")
    found = codec.object(json(screen(width=1, height=2)))
    assert (found.apiVersion, found.spec) == ("example.com/v2", {"width": 1, "height": 2})
    assert msgspec.json.decode(codec.encode_patch({"spec": {"width": 3}})) == {"spec": {"width": 3}}


def test_the_type_of_a_custom_resource_goes_with_its_definition() -> None:
    tree = definition({"url": "https://convert.example.com"}, "v1")
    tree["status"] = {"acceptedNames": {"plural": "screens", "kind": "Screen"}}
    screens = custom_resource(msgspec.convert(tree, CustomResourceDefinition))
    assert type_of(screens) is type_of(screens)
    assert screens.custom is not None
    kind = weakref.ref(screens.custom)
    del screens
    gc.collect()
    assert kind() is None  # with its schema, which may have a megabyte


def test_a_definition_that_goes_leaves_its_schema_to_no_collector() -> None:
    tree = definition({"url": "https://convert.example.com"}, "v1")
    tree["status"] = {"acceptedNames": {"plural": "screens", "kind": "Screen"}}
    screens = custom_resource(msgspec.convert(tree, CustomResourceDefinition))
    type_ = type_of(screens)
    assert screens.custom is not None
    kind = weakref.ref(screens.custom)
    gc.disable()
    try:
        screens.custom.forget(None)
        del screens
        assert kind() is None
    finally:
        gc.enable()
    with pytest.raises(NotFound, match="Screen is not defined any more"):
        resource_of(type_)
