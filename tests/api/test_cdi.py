"""CDI ids; the rules of specs are tested where specs are read and written."""

from __future__ import annotations

import pytest

from dray.api.cdi import CdiError, split_id


@pytest.mark.parametrize(
    "qualified", ["gpu0", "vendor.com=gpu0", "vendor.com/gpu", "vendor.com/gpu=", "/gpu=0", "a/b=c d"]
)
def test_ids_must_be_qualified(qualified: str) -> None:
    with pytest.raises(CdiError, match="CDI device"):
        split_id(qualified)


def test_an_id_has_three_parts() -> None:
    assert split_id("vendor.com/gpu=a:b.c") == ("vendor.com", "gpu", "a:b.c")
