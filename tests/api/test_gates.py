"""Feature gates: defaults, choices, aliases, stages and needs."""

from __future__ import annotations

import pytest

from dray.api.gates import GATES, FeatureGates, GateError

ALPHA = (
    "CompositePodGroup",
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevicesType",
    "DRAReservedForWorkloads",
    "DRAResourcePoolStatus",
    "GenericWorkload",
    "PodGroupPreemptionPolicy",
    "WorkloadWithJob",
    "TopologyAwareWorkloadScheduling",
    "WorkloadPodGroupResourceClaimTemplate",
)


def test_alpha_gates_are_off_and_the_others_on() -> None:
    gates = FeatureGates()
    assert {gate.name for gate in GATES if not gates.enabled(gate.name)} == set(ALPHA)


def test_a_choice_is_read_from_text() -> None:
    gates = FeatureGates.parse("DRAResourcePoolStatus=true, DRAAdminAccess=false")
    assert gates.enabled("DRAResourcePoolStatus")
    assert not gates.enabled("DRAAdminAccess")
    assert gates.enabled("DRAPrioritizedList")


def test_both_names_mean_the_same_gate() -> None:
    gates = FeatureGates.parse("GenericWorkload=true,DRAWorkloadResourceClaims=true")
    assert gates.enabled("WorkloadPodGroupResourceClaimTemplate")
    assert gates.enabled("DRAWorkloadResourceClaims")


def test_all_alpha_turns_on_what_is_not_named() -> None:
    gates = FeatureGates.parse("AllAlpha=true,DRAReservedForWorkloads=false")
    assert [name for name in ALPHA if not gates.enabled(name)] == ["DRAReservedForWorkloads"]


def test_all_beta_leaves_stable_gates_alone() -> None:
    gates = FeatureGates.parse("AllBeta=false")
    assert gates.enabled("DynamicResourceAllocation")
    assert not gates.enabled("DRASchedulerFilterTimeout")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Nope=true", "unrecognized feature gate: Nope; known are CompositePodGroup, DRAAdminAccess"),
        ("DRAAdminAccess", 'feature gate "DRAAdminAccess": expected NAME=true or NAME=false'),
        ("DRAAdminAccess=maybe", 'feature gate DRAAdminAccess: invalid value "maybe", expected true or false'),
        ("DRAWorkloadResourceClaims=true", "feature gate WorkloadPodGroupResourceClaimTemplate needs GenericWorkload"),
        ("DynamicResourceAllocation=false,DRAAdminAccess=true", "DRAAdminAccess needs DynamicResourceAllocation"),
    ],
)
def test_bad_choices_are_explained(text: str, complaint: str) -> None:
    with pytest.raises(GateError) as caught:
        FeatureGates.parse(text)
    assert complaint in str(caught.value)


def test_gates_of_kubernetes_without_a_switch_here_are_taken_over_and_told(caplog: pytest.LogCaptureFixture) -> None:
    text = "DRAResourceClaimDeviceStatus=true,GangScheduling=true,DRAResourcePoolStatus=true"
    assert FeatureGates.parse(text).enabled("DRAResourcePoolStatus")
    assert caplog.messages == []
    FeatureGates.parse("DRAResourceClaimDeviceStatus=false,GangScheduling=false")
    assert caplog.messages == [
        "feature gate DRAResourceClaimDeviceStatus is always true here",
        "feature gate GangScheduling is always true here",
    ]


def test_what_needs_a_disabled_gate_is_not_served() -> None:
    gates = FeatureGates.parse("DynamicResourceAllocation=false")
    assert gates.enabled("DRADeviceTaints")
    assert not gates.served("DRADeviceTaints")
    assert gates.served(None)
