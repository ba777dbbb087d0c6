"""What a refused request is told."""

from __future__ import annotations

from dray.api.errors import Invalid, invalid, required
from dray.api.resources import BY_KIND, DRA

CLAIMS = BY_KIND[DRA, "ResourceClaim"]


def test_a_fault_that_two_rules_find_is_told_once() -> None:
    fault = invalid("metadata.labels", "a b", "bad")
    refusal = Invalid(CLAIMS, "c", [fault, required("spec"), invalid("metadata.labels", "a b", "bad")])
    assert refusal.message == (
        'ResourceClaim.resource.k8s.io "c" is invalid: '
        '[metadata.labels: Invalid value: "a b": bad, spec: Required value]'
    )
    assert [cause["field"] for cause in refusal.details["causes"]] == ["metadata.labels", "spec"]
