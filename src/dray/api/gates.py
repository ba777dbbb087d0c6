"""Feature gates: a table of all gates, and the selection that a component was started with.

The names are those of the Kubernetes enhancement proposals; `WorkloadPodGroupResourceClaimTemplate` also has the
name used in Kubernetes. A disabled gate removes its fields from new objects (`strategy`) and hides its resources
(`resources`). A Kubernetes gate that cannot be switched here is accepted, so that the flags of an existing
cluster can be reused; requesting its other state logs a warning. The selection comes from the command line.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

logger = logging.getLogger(__name__)

GateStage = Literal["alpha", "beta", "stable"]


NEWEST = 37  # minor release of Kubernetes that dray implements


class GateError(ValueError):
    """The selection of gates is invalid; the message gives the reason."""


@dataclass(frozen=True)
class Gate:
    """One feature that can be enabled or disabled."""

    name: str
    stage: GateStage
    default: bool
    meaning: str
    needs: tuple[str, ...] = ()
    alias: str = ""
    since: int = NEWEST  # minor release of Kubernetes in which the gate was first on by default


def _kept(name: str, what: str, *needs: str) -> Gate:
    """Return the gate of a v1.37 feature whose fields the API only stores, for other schedulers and drivers."""
    return _alpha(name, f"keep {what}", *needs)


def _alpha(name: str, meaning: str, *needs: str) -> Gate:
    return Gate(name, "alpha", False, meaning, needs=("DynamicResourceAllocation", *needs))


GATES: tuple[Gate, ...] = (
    Gate("DynamicResourceAllocation", "stable", True, "serve resource.k8s.io and allocate devices to claims", since=34),
    Gate(
        "DRAPrioritizedList",
        "stable",
        True,
        "let a request list alternatives in order of preference (firstAvailable)",
        needs=("DynamicResourceAllocation",),
        since=34,
    ),
    Gate(
        "DRAAdminAccess",
        "stable",
        True,
        "let administrators reach devices that are in use (adminAccess)",
        needs=("DynamicResourceAllocation",),
        since=34,
    ),
    Gate(
        "DRADeviceTaints",
        "stable",
        True,
        "taint devices, tolerate taints, serve DeviceTaintRule",
        needs=("DynamicResourceAllocation",),
        since=36,
    ),
    Gate(
        "DRASchedulerFilterTimeout",
        "beta",
        True,
        "give up on a node when the search for devices takes too long",
        needs=("DynamicResourceAllocation",),
        since=34,
    ),
    Gate(
        "DRAResourceClaimGranularStatusAuthorization",
        "beta",
        True,
        "ask for rights of their own to write allocations (resourceclaims/binding) and devices (resourceclaims/driver)",
        needs=("DynamicResourceAllocation",),
        since=36,
    ),
    Gate(
        "DRAPartitionableDevices",
        "beta",
        True,
        "let devices of a pool draw on counters that they share (sharedCounters, consumesCounters)",
        needs=("DynamicResourceAllocation",),
        since=36,
    ),
    Gate(
        "DRAConsumableCapacity",
        "beta",
        True,
        "let claims have shares of a device (allowMultipleAllocations, capacity requests, distinctAttribute)",
        needs=("DynamicResourceAllocation",),
        since=36,
    ),
    Gate(
        "DRAFractionalCapacityRange",
        "beta",
        True,
        "let the steps of a capacity be parts of one (validRange)",
        needs=("DynamicResourceAllocation", "DRAConsumableCapacity"),
    ),
    Gate(
        "DRADeviceBindingConditions",
        "beta",
        True,
        "wait for conditions of devices before a pod is bound (bindingConditions, bindsToNode)",
        needs=("DynamicResourceAllocation",),
        since=36,
    ),
    Gate(
        "DRAExtendedResource",
        "stable",
        True,
        "serve extended resources of pods with devices (extendedResourceName of a class)",
        needs=("DynamicResourceAllocation",),
        since=36,
    ),
    Gate(
        "DRAReservedForWorkloads",
        "alpha",
        False,
        "reserve a claim for a workload as a whole (spec.reservedFor)",
        needs=("DynamicResourceAllocation",),
    ),
    Gate(
        "DRAResourcePoolStatus",
        "alpha",
        False,
        "serve ResourcePoolStatusRequest: how much of a pool is in use",
        needs=("DynamicResourceAllocation",),
    ),
    Gate(
        "GenericWorkload",
        "alpha",
        False,
        "serve Workload and PodGroup; place gangs completely or not at all, let them preempt, tell how their pods fare",
    ),
    Gate(
        "WorkloadPodGroupResourceClaimTemplate",
        "alpha",
        False,
        "let the pods of a group share claims (resourceClaims of a group, podGroupResourceClaim of a pod)",
        needs=("DynamicResourceAllocation", "GenericWorkload"),
        alias="DRAWorkloadResourceClaims",
    ),
    _kept("CompositePodGroup", "groups of groups of pods (CompositePodGroup)", "GenericWorkload"),
    _alpha("DRADerivedAttributes", "let a request compute attributes for its constraints (derivedAttributes)"),
    _alpha("DRADeviceCompatibilityGroups", "let devices say with whom they share counters (compatibilityGroups)"),
    _alpha("DRAListTypeAttributes", "let attributes of devices be lists (ints, bools, strings, versions)"),
    _alpha("DRANodeAllocatableResources", "count what devices take from their node (nodeAllocatableResources)"),
    _alpha("DRAOptionalNodeOperations", "let drivers leave calls out (skipNodeOperations)"),
    _alpha(
        "DRAPartitionableDevicesType",
        "count what is left of each type of partition (partitionTypeAttribute, defaultPartitionTypeAttribute)",
        "DRAResourcePoolStatus",
        "DRAPartitionableDevices",
    ),
    Gate(
        "TopologyAwareWorkloadScheduling",
        "alpha",
        False,
        "place the pods of a group in one topology domain (schedulingConstraints)",
        needs=("GenericWorkload",),
    ),
    Gate(
        "PodGroupPreemptionPolicy",
        "alpha",
        False,
        "let a PodGroup have a preemption policy, which its pods must have too (preemptionPolicy)",
        needs=("GenericWorkload",),
    ),
    Gate(
        "WorkloadWithJob",
        "alpha",
        False,
        "make a Workload and a PodGroup for each new Job (scheduling of a Job)",
        needs=("GenericWorkload",),
    ),
)

FIXED: Mapping[str, bool] = {  # gates of Kubernetes that cannot be switched: always on, or not implemented
    "DRAResourceClaimDeviceStatus": True,
    "DRADeviceTaintRules": True,  # if DRADeviceTaints is on
    "ResourceHealthStatus": True,
    "GangScheduling": True,  # if GenericWorkload is on
}

OPTIONAL_OPERATIONS = "DRAOptionalNodeOperations"
_DECLARED = (OPTIONAL_OPERATIONS, "DRANodeAllocatableResources")  # gates that nodes declare in their status

_BY_NAME: Mapping[str, Gate] = {gate.name: gate for gate in GATES}
_CANONICAL: Mapping[str, str] = {name: gate.name for gate in GATES for name in (gate.name, gate.alias) if name}
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_STAGES: Mapping[str, GateStage] = {"AllAlpha": "alpha", "AllBeta": "beta"}


@dataclass(frozen=True)
class FeatureGates:
    """The selection of gates; gates that are not in `chosen` have their defaults."""

    chosen: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> FeatureGates:
        """Parse `A=true,B=false`; `AllAlpha` and `AllBeta` set the other gates of a stage.

        Empty parts are ignored. Raises GateError for an invalid text, an unknown name or a missing requirement.
        """
        return cls.of(_assignment(part) for part in text.split(",") if part.strip())

    @classmethod
    def of(cls, choices: Mapping[str, bool] | Iterable[tuple[str, bool]]) -> FeatureGates:
        """Create a selection from names and values. Raises GateError for an unknown name or a missing requirement.

        A name such as AllAlpha sets the gates of a stage that are not named themselves. A value that contradicts a
        fixed gate is logged and ignored.
        """
        named: dict[str, bool] = {}
        whole: dict[str, bool] = {}
        for name, value in choices.items() if isinstance(choices, Mapping) else choices:
            if name in _STAGES:
                whole[name] = value
            elif name in _CANONICAL:
                named[_CANONICAL[name]] = value
            elif name in FIXED:
                if value is not FIXED[name]:
                    logger.warning("feature gate %s is always %s here", name, str(FIXED[name]).lower())
            else:
                raise GateError(f"unrecognized feature gate: {name}{_meant(name)}")
        for name, value in whole.items():
            for gate in GATES:
                if gate.stage == _STAGES[name]:
                    named.setdefault(gate.name, value)
        gates = cls(named)
        gates._check_needs()
        return gates

    def enabled(self, name: str) -> bool:
        """Return whether a gate is on, regardless of the gates that it requires.

        Raises KeyError for an unknown name.
        """
        gate = _BY_NAME[_CANONICAL[name]]
        return self.chosen.get(gate.name, gate.default)

    def _check_needs(self) -> None:
        """Raise GateError if an explicitly enabled gate requires a disabled one."""
        for name, value in self.chosen.items():
            missing = [needed for needed in _BY_NAME[name].needs if not self.enabled(needed)] if value else []
            if missing:
                raise GateError(f"feature gate {name} needs {', '.join(missing)}")

    def served(self, gate: str | None) -> bool:
        """Return whether a gate and all gates that it requires are enabled; True for None.

        Raises KeyError for an unknown name.
        """
        return gate is None or _CANONICAL[gate] in self.all_served

    @classmethod
    def of_release(cls, minor: int) -> FeatureGates:
        """Return the defaults of Kubernetes 1.`minor`; for releases newer than the known ones, those of the newest."""
        return cls({gate.name: gate.default and min(minor, NEWEST) >= gate.since for gate in GATES})

    @cached_property
    def all_served(self) -> frozenset[str]:
        """Names of the gates that are in effect. Cached, because every write uses it and the selection never changes."""
        return frozenset(gate.name for gate in GATES if self._is_served(gate))

    def _is_served(self, gate: Gate) -> bool:
        return self.enabled(gate.name) and all(self._is_served(_BY_NAME[needed]) for needed in gate.needs)


def declared_features(gates: FeatureGates) -> tuple[str, ...]:
    """Return the features that a node with these gates declares in its status: names of gates, sorted."""
    return tuple(sorted(name for name in _DECLARED if gates.served(name)))


def _meant(name: str) -> str:
    """Return a hint with the gate that was probably meant, or with all known gates."""
    close = difflib.get_close_matches(name, _CANONICAL, 1, 0.75)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(_CANONICAL))}"


def _assignment(part: str) -> tuple[str, bool]:
    """Return name and value of `NAME=true` or `NAME=false`. Raises GateError for any other text."""
    name, equals, value = (piece.strip() for piece in part.partition("="))
    if not equals or not name:
        raise GateError(f'feature gate "{part.strip()}": expected NAME=true or NAME=false')
    if value.lower() not in _TRUE + _FALSE:
        raise GateError(f'feature gate {name}: invalid value "{value}", expected true or false')
    return name, value.lower() in _TRUE
