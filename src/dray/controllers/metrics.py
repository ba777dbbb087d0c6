"""The figures that controllers publish, under the names that dashboards know: those of KEP-4381 and those of v1.37."""

from __future__ import annotations

from functools import cache

from prometheus_client import Counter, Gauge

from dray.api import podclaims
from dray.api.claim_lifecycle import has_devices
from dray.api.extended_resources import is_special
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client import Deltas

CLAIM_CREATES = Counter("resourceclaim_controller_create", "Attempts to create a claim from a template")
CLAIM_CREATE_FAILURES = Counter("resourceclaim_controller_create_failures", "Attempts that failed")
CLAIMS = Gauge("resourceclaim_controller_resource_claims", "Claims in the cluster")
ALLOCATED_CLAIMS = Gauge("resourceclaim_controller_allocated_resource_claims", "Claims that are allocated")
CLAIMS_BY_KIND = Gauge(
    "dynamic_resource_allocation_resource_claims",
    "Claims in the cluster, by whether they are allocated, whether they ask for admin access, and what they come from",
    ["allocated", "admin_access", "source"],
)
CREATES_BY_KIND = Counter(
    "dynamic_resource_allocation_resourceclaim_creates",
    "Attempts to create a claim from a template, by result and by kind of the owner",
    ["status", "admin_access", "owner_api_group", "owner_api_kind"],
)


def claims_changed(deltas: Deltas[ResourceClaim]) -> None:
    """Count claims that came, went or changed, each series once. Only its allocation changes what a claim counts as."""
    more: dict[Kind, int] = {}
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
        CLAIMS.inc(sum(more.values()))
        ALLOCATED_CLAIMS.inc(sum(number for kind, number in more.items() if kind[0]))
        for kind, number in more.items():
            _claims(*kind).inc(number)


def claim_created(owner: Pod | PodGroup, claim: ResourceClaim, *, succeeded: bool) -> None:
    """Count an attempt to create a claim from a template."""
    CLAIM_CREATES.inc()
    if not succeeded:
        CLAIM_CREATE_FAILURES.inc()
    status, group = "success" if succeeded else "failure", owner.apiVersion.rpartition("/")[0]
    _creates(status, _has_admin_access(claim), group, owner.kind).inc()


Kind = tuple[bool, bool, str]  # whether a claim is allocated, whether it asks for admin access, and what it comes from


def _kind_of(claim: ResourceClaim, allocated: bool) -> Kind:
    if is_special(claim):
        return allocated, False, "extended_resource"
    annotations = claim.metadata.annotations
    is_generated = podclaims.POD_CLAIM_ANNOTATION in annotations or podclaims.GROUP_CLAIM_ANNOTATION in annotations
    return allocated, _has_admin_access(claim), "resource_claim_template" if is_generated else ""


def _has_admin_access(claim: ResourceClaim) -> bool:
    """Alternatives cannot ask for it."""
    return any(r.exactly is not None and bool(r.exactly.adminAccess) for r in claim.spec.devices.requests or ())


@cache
def _claims(allocated: bool, admin_access: bool, source: str) -> Gauge:
    """The series of a kind; looking it up costs more than counting."""
    return CLAIMS_BY_KIND.labels(_text(allocated), _text(admin_access), source)


@cache
def _creates(status: str, admin_access: bool, group: str, kind: str) -> Counter:
    return CREATES_BY_KIND.labels(status, _text(admin_access), group, kind)


def _text(value: bool) -> str:
    return str(value).lower()
