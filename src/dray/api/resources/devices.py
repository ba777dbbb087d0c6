"""Devices and who gets them: claims, slices, classes, and the groups of pods that are scheduled together."""

from __future__ import annotations

from dray.api.resources.row import DRA, SCHEDULING, Resource
from dray.api.types import resource, scheduling

DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
GROUP_VERSIONS = ("v1beta1", "v1alpha3", "v1alpha1")

ROWS: tuple[Resource, ...] = (
    Resource(
        SCHEDULING, "priorityclasses", "PriorityClass", scheduling.PriorityClass, namespaced=False, short_names=("pc",)
    ),
    Resource(
        SCHEDULING,
        "workloads",
        "Workload",
        scheduling.Workload,
        versions=GROUP_VERSIONS,
        stored="v1beta1",
        gate="GenericWorkload",
    ),
    Resource(
        SCHEDULING,
        "podgroups",
        "PodGroup",
        scheduling.PodGroup,
        versions=GROUP_VERSIONS,
        stored="v1beta1",
        subresources=("status",),
        gate="GenericWorkload",
    ),
    Resource(
        DRA,
        "deviceclasses",
        "DeviceClass",
        resource.DeviceClass,
        versions=DRA_VERSIONS,
        namespaced=False,
        gate="DynamicResourceAllocation",
    ),
    Resource(
        DRA,
        "resourceclaims",
        "ResourceClaim",
        resource.ResourceClaim,
        versions=DRA_VERSIONS,
        subresources=("status",),
        gate="DynamicResourceAllocation",
    ),
    Resource(
        DRA,
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        resource.ResourceClaimTemplate,
        versions=DRA_VERSIONS,
        gate="DynamicResourceAllocation",
    ),
    Resource(
        DRA,
        "resourceslices",
        "ResourceSlice",
        resource.ResourceSlice,
        versions=DRA_VERSIONS,
        namespaced=False,
        gate="DynamicResourceAllocation",
    ),
    Resource(
        DRA,
        "devicetaintrules",
        "DeviceTaintRule",
        resource.DeviceTaintRule,
        versions=("v1", "v1beta2", "v1alpha3"),
        namespaced=False,
        subresources=("status",),
        gate="DRADeviceTaints",
    ),
    Resource(
        DRA,
        "resourcepoolstatusrequests",
        "ResourcePoolStatusRequest",
        resource.ResourcePoolStatusRequest,
        versions=("v1alpha3", "v1alpha1"),
        stored="v1alpha3",
        namespaced=False,
        short_names=("rpsr",),
        subresources=("status",),
        gate="DRAResourcePoolStatus",
    ),
    Resource(
        SCHEDULING,
        "compositepodgroups",
        "CompositePodGroup",
        scheduling.CompositePodGroup,
        versions=("v1alpha3",),
        stored="v1alpha3",
        subresources=("status",),
        gate="CompositePodGroup",
        inert=True,
    ),
)
