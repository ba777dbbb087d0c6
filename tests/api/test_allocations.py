"""What an allocation takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.allocations import NOTHING, DeviceId, Share, consumed, node_of, taken_by, taken_by_claim
from dray.api.quantity import Quantity
from dray.api.types.resource import AllocationResult, ResourceClaim


def allocation(*results: dict[str, object]) -> AllocationResult:
    named = [{"request": "r", "driver": "d", "pool": "p", **result} for result in results]
    return msgspec.convert({"devices": {"results": named}}, AllocationResult)


def test_admin_access_takes_nothing() -> None:
    found = taken_by(allocation({"device": "a", "adminAccess": True}, {"device": "b", "adminAccess": False}))
    assert found.devices == (DeviceId("d", "p", "b"),)
    assert not found.shares


def test_a_share_leaves_its_device_open_but_in_use() -> None:
    share = {"device": "a", "shareID": "s", "consumedCapacity": {"memory": "1Gi"}}
    found = taken_by(allocation(share, {**share, "shareID": "t"}))
    assert found.devices == ()
    assert found.shares[0] == Share.of(("d", "p", "a"), "s", {"memory": "1Gi"})
    assert found.touched == (DeviceId("d", "p", "a"),)
    assert consumed(found.shares) == {DeviceId("d", "p", "a"): {"memory": Quantity.parse("2Gi")}}


def test_nothing_is_taken_without_an_allocation() -> None:
    assert taken_by(None) == taken_by_claim(None) == taken_by_claim(ResourceClaim()) == NOTHING
    assert not NOTHING


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}], "n"),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]}], ""),
        ([{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}], ""),
        ([], ""),
    ],
)
def test_an_allocation_for_one_node_is_recognized(terms: list[dict[str, Any]], expected: str) -> None:
    found = msgspec.convert({"nodeSelector": {"nodeSelectorTerms": terms}}, AllocationResult)
    assert node_of(found) == expected
