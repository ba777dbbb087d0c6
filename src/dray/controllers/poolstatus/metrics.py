"""Metrics of pool status requests, under the names of KEP-5677 and again under those of Kubernetes v1.37."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from dray.client.metrics import also_named

PROCESSED = Counter("resourcepoolstatus_requests_processed", "Requests that were answered")
ERRORS = Counter("resourcepoolstatus_request_processing_errors", "Failed attempts to compute or write an answer")
DURATION = Histogram(
    "resourcepoolstatus_request_processing_duration_seconds",
    "Time from the start of an attempt until the answer is written",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
for _original in (PROCESSED, ERRORS, DURATION):
    also_named(_original, "resourcepoolstatus_", "resourcepoolstatusrequest_controller_")
