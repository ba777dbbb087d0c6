"""Who holds which devices: news in any order, and claims that hold none although they name some."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator import Index
from dray.api.allocations import DeviceId, Share, Taken
from dray.api.gates import FeatureGates
from dray.api.types.resource import ResourceClaim
from dray.core.devices import Devices
from dray.core.ledger import DeviceLedger
from dray.verdicts.nodes import NodeTable
from tests import objects

A = DeviceId("d", "p", "a")


def claim_at(version: int = 1, allocated: bool = True, **result: object) -> ResourceClaim:
    """A version of a claim that has a device."""
    results = [{"request": "r", "driver": "d", "pool": "p", "device": "a", **result}]
    status = {"allocation": {"devices": {"results": results}}} if allocated else {}
    tree = objects.claim(metadata={"uid": "c", "resourceVersion": str(version)}, status=status)
    return msgspec.convert(tree, ResourceClaim)


@pytest.fixture
def devices() -> Devices:
    return Devices(Index(), lambda *_: None, lambda _: None, NodeTable(), FeatureGates(), lambda: 0.0)


def test_a_claim_takes_its_device_and_admin_access_takes_none(devices: Devices) -> None:
    devices.claim_changed(claim_at(adminAccess=True), gone=False)
    assert devices.index.taken == frozenset()
    devices.claim_changed(claim_at(), gone=False)
    assert devices.index.taken == {A}
    assert devices.claim_changed(claim_at(), gone=True)
    assert devices.index.taken == frozenset()


def test_old_news_do_not_end_a_promise_that_was_written_and_young_ones_do() -> None:
    index = Index()
    ledger = DeviceLedger(index)
    ledger.promise("c", Taken((A,)))
    assert not ledger.written("c", None, version=3)
    ledger.kept("c", 5)
    assert not ledger.written("c", None, version=4)
    assert index.taken == {A}
    assert ledger.written("c", None, version=6)
    assert index.taken == frozenset()


def test_shares_of_a_device_are_held_one_by_one() -> None:
    index = Index()
    ledger = DeviceLedger(index)
    one, two = (Share.of(A, name, {"memory": "1Gi"}) for name in ("one", "two"))
    ledger.promise("first", Taken((), (one,)))
    ledger.written("second", Taken((), (two,)))
    assert index.shares == {one, two}
    assert not index.taken
    assert not ledger.written("first", Taken((), (one,)))
    assert ledger.written("first", None)
    assert index.shares == {two}
