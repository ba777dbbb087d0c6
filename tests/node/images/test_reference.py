"""Names of images."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.node.images.reference import ImageName, InvalidImageName

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("team/app:1.0", "docker.io/team/app:1.0"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:v1", "localhost:5000/app:v1"),
        ("registry.k8s.io/dra/driver:v0.1.0", "registry.k8s.io/dra/driver:v0.1.0"),
        (f"example.com/app@{DIGEST}", f"example.com/app@{DIGEST}"),
        (f"example.com/app:1@{DIGEST}", f"example.com/app:1@{DIGEST}"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
    ],
)
def test_what_is_left_out_is_filled_in(text: str, full: str) -> None:
    assert ImageName.parse(text).full == full


@pytest.mark.parametrize("text", ["", "A", "a b", "a:", "a@sha256:1", "a/../b", "http://a/b", "a//b", "a\n", "x" * 300])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidImageName, match="invalid reference format"):
        ImageName.parse(text)


@given(st.text(alphabet="ab0.:/@-_[]A", max_size=30))
def test_a_full_name_is_its_own(text: str) -> None:
    try:
        name = ImageName.parse(text)
    except InvalidImageName:
        return
    assert ImageName.parse(name.full) == name
