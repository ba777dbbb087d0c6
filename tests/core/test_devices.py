"""The rule about devices: what one attempt makes of a pod's claims, and who holds which device."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator import Index
from dray.api.allocations import DeviceId, Taken
from dray.api.claim_access import PodClaims
from dray.api.gates import FeatureGates
from dray.api.types.resource import ResourceClaim
from dray.core.attempt import Attempt
from dray.core.configuration import SchedulerProfile
from dray.core.devices import Devices
from dray.core.ledger import DeviceLedger
from dray.verdicts.demand import Candidate
from dray.verdicts.devices import DeviceVerdict
from dray.verdicts.nodes import NodeTable
from tests import objects
from tests.scheduler.objects import pod

POD = {"resource": "pods", "name": "p", "uid": "uid-p"}
OTHER = {"resource": "pods", "name": "q", "uid": "uid-q"}
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
A, B = DeviceId("d", "p", "a"), DeviceId("d", "p", "b")


def allocated_claim(*consumers: dict[str, str], any_pod: bool | None = None, deleting: bool = False) -> ResourceClaim:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z" if deleting else None}
    status = {"allocation": {"reservedForAnyPod": any_pod}, "reservedFor": list(consumers)}
    return msgspec.convert(objects.claim(metadata=metadata, status=status), ResourceClaim)


@pytest.fixture
def devices() -> Devices:
    return devices_of(is_in_use=False)


def devices_of(*, is_in_use: bool) -> Devices:
    """Devices of a cluster where a pod with a node uses every claim, or none does."""
    nobody = (Index(), lambda *_: None, lambda _: None, NodeTable(), FeatureGates(), lambda: 0.0)
    return Devices(*nobody, is_in_use=lambda _: is_in_use)


# Deallocating what is in the way


@pytest.mark.parametrize(
    ("held", "expendable"),
    [
        (allocated_claim(), True),
        (allocated_claim(POD), True),
        (allocated_claim(OTHER), False),
        (allocated_claim(POD, OTHER), False),
        (allocated_claim(GROUP), False),  # nobody knows how many pods consume it
        (allocated_claim(any_pod=True), True),
        (allocated_claim(POD, any_pod=True), False),  # others may have joined without a trace
        (allocated_claim(deleting=True), False),
    ],
)
def test_only_a_claim_that_nobody_else_can_be_using_is_in_the_way(
    devices: Devices, held: ResourceClaim, expendable: bool
) -> None:
    wanted = pod("p")
    attempt = Attempt(Candidate(wanted), PodClaims(wanted), SchedulerProfile(), devices=DeviceVerdict(elsewhere=[held]))
    found = devices.expendable(attempt)
    assert (found is held) is expendable


@pytest.mark.parametrize("any_pod", [True, None])
def test_a_claim_that_lists_nobody_is_not_in_the_way_while_a_pod_uses_it(any_pod: bool | None) -> None:
    wanted, held = pod("p"), allocated_claim(any_pod=any_pod)
    attempt = Attempt(Candidate(wanted), PodClaims(wanted), SchedulerProfile(), devices=DeviceVerdict(elsewhere=[held]))
    assert devices_of(is_in_use=True).expendable(attempt) is None


# Who holds what


def test_a_promised_device_is_taken_until_it_is_forgotten() -> None:
    index = Index()
    ledger = DeviceLedger(index)
    ledger.promise("claim", Taken((A,)))
    assert index.taken == {A}
    assert ledger.forget("claim")
    assert index.taken == frozenset()


def test_what_is_written_replaces_what_was_promised() -> None:
    index = Index()
    ledger = DeviceLedger(index)
    ledger.promise("claim", Taken((A,)))
    assert ledger.written("claim", Taken((B,)))
    assert index.taken == {B}
    assert not ledger.forget("claim")
    assert index.taken == {B}
    assert ledger.written("claim", None)
    assert index.taken == frozenset()


def test_a_device_that_two_claims_hold_is_free_when_both_let_go() -> None:
    index = Index()
    ledger = DeviceLedger(index)
    ledger.promise("ours", Taken((A,)))
    ledger.written("theirs", Taken((A,)))
    assert not ledger.forget("ours")
    assert index.taken == {A}
    assert ledger.written("theirs", None)
    assert index.taken == frozenset()


def test_a_pod_without_claims_costs_nothing(devices: Devices) -> None:
    found = devices.claims_of(pod("p"))
    assert isinstance(found, PodClaims)
    assert not found.uses
    assert not found.pending
    assert not found.allocated
