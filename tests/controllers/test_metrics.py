"""The figures of claims, under the names of KEP-4381 and those of v1.37."""

from __future__ import annotations

import msgspec
import pytest
from prometheus_client import REGISTRY

from dray.api.extended_resources import ANNOTATION
from dray.api.podclaims import GROUP_CLAIM_ANNOTATION, POD_CLAIM_ANNOTATION
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client import Delta
from dray.controllers.metrics import claim_created, claims_changed
from tests import objects


def figure(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def claim_that_is(annotation: str = "", *, allocated: bool = False, admin: bool = False) -> ResourceClaim:
    tree = objects.claim(
        "c",
        objects.request(adminAccess=admin or None),
        metadata={"annotations": {annotation: "true"} if annotation else {}},
        status={"allocation": {}} if allocated else {},
    )
    return msgspec.convert(tree, ResourceClaim)


@pytest.mark.parametrize(
    ("annotation", "source"),
    [
        ("", ""),
        (POD_CLAIM_ANNOTATION, "resource_claim_template"),
        (GROUP_CLAIM_ANNOTATION, "resource_claim_template"),
        (ANNOTATION, "extended_resource"),
    ],
)
def test_a_claim_counts_once_by_allocation_and_source_until_it_is_gone(annotation: str, source: str) -> None:
    def counts() -> tuple[float, ...]:
        by_kind = "dynamic_resource_allocation_resource_claims"
        return (
            figure("resourceclaim_controller_resource_claims"),
            figure("resourceclaim_controller_allocated_resource_claims"),
            figure(by_kind, allocated="false", admin_access="false", source=source),
            figure(by_kind, allocated="true", admin_access="false", source=source),
        )

    def since() -> tuple[float, ...]:
        return tuple(now - then for now, then in zip(counts(), before, strict=True))

    before, pending, allocated = counts(), claim_that_is(annotation), claim_that_is(annotation, allocated=True)
    claims_changed([Delta(None, pending)])
    assert since() == (1, 0, 1, 0)
    claims_changed([Delta(pending, allocated), Delta(allocated, allocated)])
    assert since() == (1, 1, 0, 1)
    claims_changed([Delta(None, pending), Delta(allocated, None)])
    assert since() == (1, 0, 1, 0)
    claims_changed([Delta(pending, None)])
    assert since() == (0, 0, 0, 0)


@pytest.mark.parametrize("succeeded", [True, False])
@pytest.mark.parametrize(
    ("owner", "group", "kind"), [(Pod(), "", "Pod"), (PodGroup(), "scheduling.k8s.io", "PodGroup")]
)
def test_attempts_are_counted_by_owner_and_result(
    owner: Pod | PodGroup, group: str, kind: str, succeeded: bool
) -> None:
    labels = {
        "status": "success" if succeeded else "failure",
        "admin_access": "true",
        "owner_api_group": group,
        "owner_api_kind": kind,
    }
    name, failures = (
        "dynamic_resource_allocation_resourceclaim_creates_total",
        "resourceclaim_controller_create_failures",
    )
    before, failed = figure(name, **labels), figure(f"{failures}_total")
    claim_created(owner, claim_that_is(admin=True), succeeded=succeeded)
    assert figure(name, **labels) == before + 1
    assert figure(f"{failures}_total") == failed + (not succeeded)
