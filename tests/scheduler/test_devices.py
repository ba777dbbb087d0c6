"""The rule about devices: what one attempt makes of a pod's claims, and who holds which device."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.allocator import DeviceId, Index
from dray.api.gates import FeatureGates
from dray.api.types.core import NodeSelector, Pod
from dray.api.types.resource import ResourceClaim
from dray.client import Client, Informer, InProcess
from dray.scheduler.devices import DeviceLedger, Devices, KeptNodes, PodClaims, single_node
from dray.scheduler.nodes import NodeTable
from tests.scheduler.objects import node, pod, put

POD = {"resource": "pods", "name": "p", "uid": "uid-p"}
OTHER = {"resource": "pods", "name": "q", "uid": "uid-q"}
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
A, B = DeviceId("d", "p", "a"), DeviceId("d", "p", "b")


def claim(*consumers: dict[str, str], any_pod: bool | None = None, deleting: bool = False) -> ResourceClaim:
    metadata = {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z" if deleting else None}
    status = {"allocation": {"reservedForAnyPod": any_pod}, "reservedFor": list(consumers)}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


@pytest.fixture
def devices() -> Devices:
    table = NodeTable()
    claims: Informer[ResourceClaim] = Informer(_nobody(), ResourceClaim)
    return Devices(Index(), claims, lambda _: None, table, FeatureGates(), lambda: 0.0)


def _nobody() -> Client:
    """A client that is never asked: the informer is not started."""
    return InProcess.__new__(InProcess)


# Deallocating what is in the way


@pytest.mark.parametrize(
    ("held", "expendable"),
    [
        (claim(), True),
        (claim(POD), True),
        (claim(OTHER), False),
        (claim(POD, OTHER), False),
        (claim(GROUP), False),  # nobody knows how many pods consume it
        (claim(any_pod=True), False),
        (claim(deleting=True), False),
    ],
)
def test_only_a_claim_that_nobody_else_can_be_using_is_in_the_way(
    devices: Devices, held: ResourceClaim, expendable: bool
) -> None:
    found = devices.expendable(PodClaims(pod("p"), allocated=[held], elsewhere=[held]))
    assert (found is held) is expendable


# Who holds what


def test_a_promised_device_is_taken_until_it_is_forgotten() -> None:
    index = Index()
    ledger = DeviceLedger(index)
    ledger.promise("claim", (A,))
    assert index.taken == {A}
    assert ledger.forget("claim")
    assert index.taken == frozenset()


def test_what_is_written_replaces_what_was_promised() -> None:
    index = Index()
    ledger = DeviceLedger(index)
    ledger.promise("claim", (A,))
    assert ledger.written("claim", (B,))
    assert index.taken == {B}
    assert not ledger.forget("claim")
    assert index.taken == {B}
    assert ledger.written("claim", None)
    assert index.taken == frozenset()


def test_a_device_that_two_claims_hold_is_free_when_both_let_go() -> None:
    index = Index()
    ledger = DeviceLedger(index)
    ledger.promise("ours", (A,))
    ledger.written("theirs", (A,))
    assert not ledger.forget("ours")
    assert index.taken == {A}
    assert ledger.written("theirs", None)
    assert index.taken == frozenset()


# Where an allocation can be reached


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}], "n"),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]}], None),
        ([{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}], None),
        ([], None),
    ],
)
def test_a_selector_that_names_one_node_is_recognized(terms: list[dict[str, Any]], expected: str | None) -> None:
    assert single_node(selector(*terms)) == expected


def test_the_nodes_of_a_shared_allocation_follow_the_labels() -> None:
    table = NodeTable()
    put(table, node("a", {"zone": "1"}))
    put(table, node("b", {"zone": "2"}))
    kept = KeptNodes(table)
    one = selector({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]})
    assert kept.matching(one) == 0b01
    put(table, node("b", {"zone": "1"}))
    assert kept.matching(one) == 0b11
    table.remove("a")
    assert kept.matching(one) == 0b10


def test_a_pod_without_claims_costs_nothing(devices: Devices) -> None:
    state = devices.prepare(pod("p"))
    assert (state.uses, state.pending, state.allocated) == ([], [], [])
    assert isinstance(state.pod, Pod)
