"""Metrics of controllers, under the names that dashboards expect: those of KEP-4381 and those of Kubernetes v1.37."""

from __future__ import annotations

from dray.api import podclaims
from dray.api.claim_lifecycle import has_devices
from dray.api.extended_resources import is_extended_resource_claim
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client import Deltas
from dray.client.metrics import CountFamily

CLAIM_CREATES = CountFamily("resourceclaim_controller_create", "Attempts to create a claim from a template").of()
CLAIM_CREATE_FAILURES = CountFamily(
    "resourceclaim_controller_create_failures", "Failed attempts to create a claim from a template"
).of()
CLAIMS = CountFamily("resourceclaim_controller_resource_claims", "Claims in the cluster", goes_down=True).of()
ALLOCATED_CLAIMS = CountFamily(
    "resourceclaim_controller_allocated_resource_claims", "Claims that are allocated", goes_down=True
).of()
CLAIMS_BY_KIND = CountFamily(
    "dynamic_resource_allocation_resource_claims",
    "Claims in the cluster, by allocation, admin access and source",
    ["allocated", "admin_access", "source"],
    goes_down=True,
)
CREATES_BY_KIND = CountFamily(
    "dynamic_resource_allocation_resourceclaim_creates",
    "Attempts to create a claim from a template, by result and by kind of the owner",
    ["status", "admin_access", "owner_api_group", "owner_api_kind"],
)


def claims_changed(deltas: Deltas[ResourceClaim]) -> None:
    """Update the gauges of claims after claims were created, changed or deleted, each series once."""
    more: dict[ClaimKind, int] = {}
    for old, new in deltas:
        was, now = has_devices(old), has_devices(new)
        if old is not None and new is not None and was == now:
            continue
        if old is not None:
            kind = _kind_of(old, was)
            more[kind] = more.get(kind, 0) - 1
        if new is not None:
            kind = _kind_of(new, now)
            more[kind] = more.get(kind, 0) + 1
    if more:
        CLAIMS.add(sum(more.values()))
        ALLOCATED_CLAIMS.add(sum(number for kind, number in more.items() if kind[0]))
        for kind, number in more.items():
            allocated, admin_access, source = kind
            CLAIMS_BY_KIND.of(_text(allocated), _text(admin_access), source).add(number)


def claim_created(owner: Pod | PodGroup, claim: ResourceClaim, *, succeeded: bool) -> None:
    """Count an attempt to create a claim from a template."""
    CLAIM_CREATES.add()
    if not succeeded:
        CLAIM_CREATE_FAILURES.add()
    status, group = "success" if succeeded else "failure", owner.apiVersion.rpartition("/")[0]
    CREATES_BY_KIND.of(status, _text(_has_admin_access(claim)), group, owner.kind).add()


# whether a claim is allocated, whether it requests admin access, and what it was made from
ClaimKind = tuple[bool, bool, str]


def _kind_of(claim: ResourceClaim, allocated: bool) -> ClaimKind:
    if is_extended_resource_claim(claim):
        return allocated, False, "extended_resource"
    annotations = claim.metadata.annotations
    is_generated = podclaims.POD_CLAIM_ANNOTATION in annotations or podclaims.GROUP_CLAIM_ANNOTATION in annotations
    return allocated, _has_admin_access(claim), "resource_claim_template" if is_generated else ""


def _has_admin_access(claim: ResourceClaim) -> bool:
    """Whether a claim requests admin access; alternatives (firstAvailable) cannot request it."""
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None and request.exactly.adminAccess:
            return True
    return False


def _text(value: bool) -> str:
    return "true" if value else "false"
