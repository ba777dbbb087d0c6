"""What the server gives a new object, and what no update takes from it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dray.api.errors import BadRequest
from dray.api.types.meta import ObjectMeta
from dray.api.users import ADMIN
from dray.apiserver.request import Request
from dray.apiserver.write import identity
from tests.apiserver.asking import CLAIMS, CLASSES


def request(**fields: Any) -> Request:
    return Request(**{"user": ADMIN, "verb": "create", "resource": CLAIMS, "namespace": "ns", **fields})


def test_generated_names_are_short_enough_and_differ() -> None:
    names = {identity.generated("x" * 100) for _ in range(200)}
    assert all(len(name) == 63 for name in names)
    assert len(names) > 190


def test_the_time_is_written_as_the_api_writes_it() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", identity.now())
    assert identity.now(3600) > identity.now()


def test_the_request_decides_where_an_object_is() -> None:
    metadata: dict[str, Any] = {}
    identity.place(request(name="a"), metadata)
    assert metadata == {"namespace": "ns", "name": "a"}
    with pytest.raises(BadRequest, match="does not match the name on the URL"):
        identity.place(request(name="a"), {"name": "b"})
    with pytest.raises(BadRequest, match="does not match the namespace sent on the request"):
        identity.place(request(name="a"), {"namespace": "other"})


def test_what_has_no_namespace_loses_the_one_that_it_names() -> None:
    metadata: dict[str, Any] = {"name": "a", "namespace": "ns"}
    identity.place(request(resource=CLASSES, namespace=""), metadata)
    assert metadata == {"name": "a"}


def test_an_update_keeps_what_is_the_servers() -> None:
    old = ObjectMeta(
        name="a", uid="u", creationTimestamp="2020-01-01T00:00:00Z", deletionTimestamp="2021-01-01T00:00:00Z"
    )
    metadata: dict[str, Any] = {"creationTimestamp": None, "deletionTimestamp": None}
    identity.keep(metadata, old)
    assert metadata["uid"] == "u"
    assert metadata["creationTimestamp"] == "2020-01-01T00:00:00Z"
    assert metadata["deletionTimestamp"] == "2021-01-01T00:00:00Z"
    foreign: dict[str, Any] = {"uid": "other"}
    identity.keep(foreign, old)
    assert foreign["uid"] == "other"  # for validation to refuse


@pytest.mark.parametrize("metadata", [5, "x", []])
def test_metadata_is_an_object(metadata: Any) -> None:
    with pytest.raises(BadRequest, match="metadata: expected an object"):
        identity.metadata_of({"metadata": metadata})
