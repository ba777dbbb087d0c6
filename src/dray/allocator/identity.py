"""Limits and feature switches of the allocator."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

RESULTS_LIMIT = 32  # devices that one claim's allocation may list (AllocationResultsMaxSize)
ALTERNATIVES_LIMIT = 8  # alternatives of one request; the first one scores this much


class Features(msgspec.Struct, frozen=True, rename="camel"):
    """The features that are enabled. Devices that need a disabled feature are skipped, requests that need one are
    refused.

    Each feature is a feature gate of Kubernetes with the same default (`GATE_OF`). JSON uses adminAccess,
    derivedAttributes and so on.
    """

    admin_access: bool = True
    prioritized_list: bool = True
    device_taints: bool = True
    partitionable_devices: bool = True
    consumable_capacity: bool = True
    fractional_capacity_range: bool = True
    binding_conditions: bool = True
    optional_node_operations: bool = False
    list_type_attributes: bool = False
    compatibility_groups: bool = False
    derived_attributes: bool = False
    node_allocatable_resources: bool = False

    @classmethod
    def from_gates(cls, enabled: Callable[[str], bool]) -> Features:
        """Return the features that a function from gate names to booleans enables."""
        return cls(**{feature: enabled(gate) for feature, gate in GATE_OF.items()})


GATE_OF = {
    "admin_access": "DRAAdminAccess",
    "prioritized_list": "DRAPrioritizedList",
    "device_taints": "DRADeviceTaints",
    "partitionable_devices": "DRAPartitionableDevices",
    "consumable_capacity": "DRAConsumableCapacity",
    "fractional_capacity_range": "DRAFractionalCapacityRange",
    "binding_conditions": "DRADeviceBindingConditions",
    "optional_node_operations": "DRAOptionalNodeOperations",
    "list_type_attributes": "DRAListTypeAttributes",
    "compatibility_groups": "DRADeviceCompatibilityGroups",
    "derived_attributes": "DRADerivedAttributes",
    "node_allocatable_resources": "DRANodeAllocatableResources",
}
