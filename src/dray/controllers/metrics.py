"""The figures that controllers publish, under the names that dashboards know."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

CLAIM_CREATES = Counter("resourceclaim_controller_create", "Attempts to create a claim from a template")
CLAIM_CREATE_FAILURES = Counter("resourceclaim_controller_create_failures", "Attempts that failed")
CLAIMS = Gauge("resourceclaim_controller_resource_claims", "Claims in the cluster")
ALLOCATED_CLAIMS = Gauge("resourceclaim_controller_allocated_resource_claims", "Claims that are allocated")
