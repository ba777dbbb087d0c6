"""Accept headers and the form of the answer."""

from __future__ import annotations

import pytest

from dray.api.errors import NotAcceptable
from dray.apiserver.wire.negotiation import Accepted, accepted

PROTOBUF = "application/vnd.kubernetes.protobuf"
ONE = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", Accepted()),
        ("*/*", Accepted()),
        (PROTOBUF, Accepted(PROTOBUF)),
        (f"{PROTOBUF};stream=watch", Accepted(PROTOBUF)),
        (f"{PROTOBUF},application/json", Accepted()),
        (f"{PROTOBUF}, */*", Accepted()),
        (f"{PROTOBUF},application/json;q=0.9", Accepted(PROTOBUF)),
        (f"{PROTOBUF};q=0.5,application/json;q=0.4", Accepted(PROTOBUF)),
        (f"{PROTOBUF},application/yaml", Accepted(PROTOBUF)),
        (f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,application/json", Accepted()),
        (f"{PROTOBUF};{ONE}", Accepted(PROTOBUF, "PartialObjectMetadata")),
        (f"{PROTOBUF};{ONE},application/json;{ONE},application/json", Accepted(shape="PartialObjectMetadata")),
        (f"{PROTOBUF};{ONE},application/json", Accepted(PROTOBUF, "PartialObjectMetadata")),
        (f"{PROTOBUF};{ONE.replace('v1', 'v1beta1')},application/json", Accepted()),
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
    "header",
    ["text/html", f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1", f"{PROTOBUF};q=0", "application/json;q=0", "a;b;c"],
)
def test_what_we_cannot_produce_is_refused(header: str) -> None:
    with pytest.raises(NotAcceptable, match="application/json"):
        accepted(header)


def test_what_has_no_protobuf_form_is_json_if_that_is_accepted() -> None:
    assert accepted(f"{PROTOBUF},application/json;q=0.5", protobuf=False) == Accepted()
    with pytest.raises(NotAcceptable, match="there is no protobuf form of this"):
        accepted(PROTOBUF, protobuf=False)
