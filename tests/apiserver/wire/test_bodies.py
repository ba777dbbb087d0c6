"""Bodies of requests: what is read, and what is said about the rest."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.errors import BadRequest, UnsupportedMediaType
from dray.api.protobuf import encode
from dray.apiserver.request import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from dray.apiserver.wire.bodies import read_body, read_patch
from tests.apiserver.asking import CLAIMS, SLICES


def read(data: bytes, content_type: str = "application/json") -> Any:
    return read_body(content_type, data, CLAIMS, "v1")[0]


def test_json_is_assumed_where_nothing_is_said() -> None:
    assert read(b'{"a": [1, "x", null]}', "") == {"a": [1, "x", None]}
    assert read(b"{}", "application/json; charset=utf-8") == {}


def test_yaml_says_what_json_could_say() -> None:
    text = b"a: 1\nb: [x, true, ~, 1.5]\nc: 2020-01-01\nd: 12:30:45\ne: '1'\n1: one\n"
    expected = {"a": 1, "b": ["x", True, None, 1.5], "c": "2020-01-01", "d": "12:30:45", "e": "1", "1": "one"}
    assert read(text, "application/yaml") == expected


@pytest.mark.parametrize("text", [b"a: &x [1]\nb: *x", b"? [1, 2]\n: 3", b"a: [", b"!!python/object:os.system {}"])
def test_other_yaml_is_refused(text: bytes) -> None:
    with pytest.raises(BadRequest, match="yaml parse error"):
        read(text, "application/yaml")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"{nope", "invalid character 'n' looking for beginning of object key string ({nope)"),
        (b"", "unexpected end of JSON input"),
        (b'{"a": ', "unexpected end of JSON input"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a": 1} x', "invalid character 'x' after top-level value"),
        (b"[" * 100_000, "json parse error"),
    ],
)
def test_broken_json_is_explained_in_words_that_people_search_for(data: bytes, text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(data)
    assert text in caught.value.message
    assert caught.value.message.startswith("the object provided is unrecognized (must be of type ResourceClaim)")


def test_a_field_that_is_said_twice_is_complained_about() -> None:
    assert read_body("application/json", b'{"a": {"b": 1, "b": 2}}', CLAIMS, "v1")[1].fields == [
        'duplicate field "a.b"'
    ]


def test_protobuf_becomes_the_same_tree() -> None:
    tree = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}},
    }
    found, _ = read_body("application/vnd.kubernetes.protobuf", encode(tree), SLICES, "v1")
    assert found["spec"]["pool"] == tree["spec"]["pool"]  # type: ignore[index]  # a plain tree
    assert found["kind"] == "ResourceSlice"


def test_a_patch_says_what_kind_of_patch_it_is() -> None:
    assert read_patch(MERGE_PATCH, b'{"a": null}')[:2] == (MERGE_PATCH, {"a": None})
    assert read_patch(f"{JSON_PATCH}; charset=utf-8", b"[]")[:2] == (JSON_PATCH, [])
    assert read_patch(APPLY_PATCH, b"a: b")[:2] == (APPLY_PATCH, {"a": "b"})


@pytest.mark.parametrize("content_type", ["", "application/json", "text/plain", "application/xml"])
def test_other_patches_are_unsupported(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="strategic-merge-patch"):
        read_patch(content_type, b"{}")


def test_other_bodies_are_unsupported() -> None:
    with pytest.raises(UnsupportedMediaType, match=r"application/json.*got text/plain"):
        read(b"{}", "text/plain")


@given(
    st.binary(max_size=60),
    st.sampled_from(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]),
)
def test_whatever_comes_is_read_or_refused(data: bytes, content_type: str) -> None:
    with contextlib.suppress(BadRequest):
        read(data, content_type)
