"""Accept headers and the form of the answer."""

from __future__ import annotations

import pytest

from dray.api.errors import NotAcceptable
from dray.apiserver.negotiation import Accepted, accepted

KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", Accepted()),
        ("*/*", Accepted()),
        ("application/vnd.kubernetes.protobuf,application/json", Accepted()),
        ("application/yaml", Accepted("application/yaml")),
        ("application/yaml;q=0.5, application/json", Accepted()),
        (KUBECTL, Accepted(shape="Table")),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Accepted(shape="PartialObjectMetadataList"),
        ),
        ("application/json;as=Table;g=other;v=v1,application/json", Accepted()),
        ("application/json;stream=watch", Accepted()),
    ],
)
def test_the_first_form_that_we_have_is_taken(header: str, expected: Accepted) -> None:
    assert accepted(header) == expected


@pytest.mark.parametrize(
    "header", ["text/html", "application/vnd.kubernetes.protobuf", "application/json;q=0", "a;b;c"]
)
def test_what_we_cannot_produce_is_refused(header: str) -> None:
    with pytest.raises(NotAcceptable, match="application/json"):
        accepted(header)
