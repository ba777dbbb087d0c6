"""Trees that clients send: what is accepted, made canonical, complained about, refused."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.api import decode
from dray.api.errors import BadRequest
from dray.api.resources import BY_NAME, DRA, RESOURCES, Resource
from dray.api.types.core import ResourceFieldSelector
from dray.api.types.resource import Counter, DeviceCapacity
from tests.api.trees import trees

CLAIMS = BY_NAME[DRA, "resourceclaims"]
PODS = BY_NAME["", "pods"]
SLICES = BY_NAME[DRA, "resourceslices"]


def _asking_for(request: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"devices": {"requests": [request]}}}


def test_kind_and_version_are_filled_in() -> None:
    tree: dict[str, Any] = {}
    assert decode.check(CLAIMS, "v1", tree) == []
    assert tree == {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_unknown_fields_are_named_with_their_path_and_removed(version: str) -> None:
    tree = {"metadata": {"nope": 1, "labels": {"a": "b"}}, "spec": {"devices": {"requests": [{"name": "r", "bad": 2}]}}}
    assert decode.check(CLAIMS, version, tree) == [
        'unknown field "metadata.nope"',
        'unknown field "spec.devices.requests[0].bad"',
    ]
    assert tree["spec"]["devices"]["requests"] == [{"name": "r"}]  # type: ignore[index]


def test_unknown_fields_in_maps_are_named_by_key() -> None:
    tree = {"spec": {"devices": [{"name": "d", "attributes": {"model": {"text": "x"}}}]}}
    assert decode.check(SLICES, "v1", tree) == ['unknown field "spec.devices[0].attributes.model.text"']


def test_what_one_version_knows_another_may_not() -> None:
    assert decode.check(CLAIMS, "v1beta1", _asking_for({"name": "r", "deviceClassName": "c"})) == []
    complaint = 'unknown field "spec.devices.requests[0].deviceClassName"'
    assert decode.check(CLAIMS, "v1", _asking_for({"name": "r", "deviceClassName": "c"})) == [complaint]


def test_nulls_mean_nothing_said() -> None:
    tree = {"metadata": {"creationTimestamp": None, "labels": None}, "spec": {"containers": [{"name": None}]}}
    assert decode.check(PODS, "v1", tree) == []
    assert tree["metadata"] == {}
    assert tree["spec"] == {"containers": [{}]}


def test_null_pointers_do_not_hide_defaults() -> None:
    tree = {"spec": {"terminationGracePeriodSeconds": None}}
    decode.check(PODS, "v1", tree)
    assert tree["spec"] == {}


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (
            {"spec": {"devices": {"requests": "x"}}},
            "cannot unmarshal string into Go struct field DeviceClaim.spec.devices.requests of type []v1.DeviceRequest",
        ),
        (
            _asking_for({"name": 3}),
            "cannot unmarshal number into Go struct field DeviceRequest.spec.devices.requests.name",
        ),
        (
            _asking_for({"exactly": []}),
            "cannot unmarshal array into Go struct field DeviceRequest.spec.devices.requests",
        ),
        (
            _asking_for({"exactly": {"count": 2**63}}),
            "cannot unmarshal number 9223372036854775808 into Go struct field",
        ),
        (_asking_for({"exactly": {"count": 1.5}}), "cannot unmarshal number 1.5 into Go struct field"),
        (_asking_for({"exactly": {"count": True}}), "cannot unmarshal bool into Go struct field"),
        (
            _asking_for({"exactly": {"capacity": {"requests": {"m": "1X"}}}}),
            "quantities must match the regular expression",
        ),
        ({"metadata": {"labels": {"a": 1}}}, "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels"),
        ({"metadata": {"creationTimestamp": "yesterday"}}, 'parsing time "yesterday"'),
        ({"metadata": {"creationTimestamp": "2026-02-30T00:00:00Z"}}, 'parsing time "2026-02-30T00:00:00Z"'),
    ],
)
def test_wrong_types_are_refused_in_words_that_name_the_field(tree: dict[str, Any], text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode.check(CLAIMS, "v1", tree)
    assert caught.value.message.startswith('ResourceClaim in version "v1" cannot be handled as a ResourceClaim: ')
    assert text in caught.value.message


@pytest.mark.parametrize("tree", ["text", 1, None, [], True])
def test_only_objects_are_objects(tree: Any) -> None:
    with pytest.raises(BadRequest):
        decode.check(CLAIMS, "v1", tree)


@pytest.mark.parametrize("tree", [{"kind": 1}, {"apiVersion": []}, {"kind": "Pod"}, {"apiVersion": "v7"}])
def test_other_kinds_and_versions_are_refused(tree: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        decode.check(CLAIMS, "v1", tree)


def test_quantities_become_canonical() -> None:
    tree = {"spec": {"containers": [{"resources": {"limits": {"cpu": "1000m", "memory": "0.5Gi", "x.io/n": 2}}}]}}
    decode.check(PODS, "v1", tree)
    limits = tree["spec"]["containers"][0]["resources"]["limits"]  # type: ignore[index]
    assert limits == {"cpu": "1", "memory": "512Mi", "x.io/n": "2"}


@pytest.mark.parametrize(
    "empty", [ResourceFieldSelector(), Counter(), DeviceCapacity()], ids=lambda e: type(e).__name__
)
def test_a_quantity_that_nobody_gave_is_written_as_zero(empty: Any) -> None:
    """Clients in Go refuse a whole list for one empty text."""
    written = msgspec.to_builtins(empty)
    assert (written.get("divisor") or written.get("value")) == "0"


@pytest.mark.parametrize(
    ("text", "whole", "micro"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
        ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z", "2026-01-02T01:04:05.000000Z"),
    ],
)
def test_times_are_written_in_utc(text: str, whole: str, micro: str) -> None:
    assert decode.canonical_time(text) == whole
    assert decode.canonical_time(text, micro=True) == micro


def test_an_empty_list_of_requests_is_written_as_null() -> None:
    tree = {"spec": {"devices": {"requests": []}}}
    decode.check(CLAIMS, "v1", tree)
    written = msgspec.json.decode(msgspec.json.encode(decode.to_object(CLAIMS, tree)))
    assert written["spec"] == {"devices": {"requests": None}}


def test_bytes_must_be_base64() -> None:
    secrets = BY_NAME["", "secrets"]
    with pytest.raises(BadRequest, match="illegal base64 data"):
        decode.check(secrets, "v1", {"data": {"a": "!!"}})


def test_deep_nesting_is_refused_not_fatal() -> None:
    template: dict[str, Any] = {"name": "t", "unknown": 1}
    for _ in range(5000):
        template = {"compositePodGroupTemplates": [template]}
    workloads = BY_NAME["scheduling.k8s.io", "workloads"]
    with pytest.raises(BadRequest):
        decode.check(workloads, "v1beta1", {"spec": {"compositePodGroupTemplates": [template]}})


@pytest.mark.parametrize(
    ("body", "complaints"),
    [
        (b'{"a":1,"b":{"c":[{"d":1}]}}', []),
        (b'{ "a" : 1 , "b" : "\\":x" }', []),
        (b'{"a":1,"a":2}', ['duplicate field "a"']),
        (b'{"b":{"c":[{"d":1,"d":2}]},"x":"\\u0022"}', ['duplicate field "b.c[0].d"']),
        (b'{"a" :1,"a":2}', ['duplicate field "a"']),
    ],
)
def test_repeated_fields_are_found(body: bytes, complaints: list[str]) -> None:
    assert decode.duplicate_fields(body, msgspec.json.decode(body), 10) == complaints


def test_strict_errors_list_all_complaints() -> None:
    error = decode.strict_error(CLAIMS, "v1", ['unknown field "a"', 'duplicate field "b"'])
    assert error.message.endswith('strict decoding error: unknown field "a", duplicate field "b"')


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: f"{resource.group}/{resource.kind}")
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_both_walks_agree_on_good_trees(resource: Resource, data: st.DataObject) -> None:
    """The quick walk is only taken when nothing is wrong; it must leave the same tree behind as the thorough one."""
    tree = data.draw(trees(resource.message(), 4))
    quick, thorough = copy.deepcopy(tree), {**copy.deepcopy(tree), "unheard-of": 1}
    assert decode.check(resource, resource.stored, quick) == []
    assert decode.check(resource, resource.stored, thorough) == ['unknown field "unheard-of"']
    assert quick == thorough
    assert decode.to_object(resource, quick) == decode.to_object(resource, thorough)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(tree=trees(PODS.message(), 4), value=_JSON, choice=st.randoms(use_true_random=False))
def test_whatever_is_sent_is_accepted_or_refused(tree: dict[str, Any], value: Any, choice: Any) -> None:
    """Put any JSON value in any place: the result is a typed object or a BadRequest, never another error."""
    holder: Any = tree
    while isinstance(holder, dict) and holder:
        name = choice.choice(sorted(holder))
        if not isinstance(holder[name], dict) or choice.random() < 0.3:
            holder[name] = value
            break
        holder = holder[name]
    try:
        decode.check(PODS, "v1", tree)
        decode.to_object(PODS, tree)
    except BadRequest:
        pass
