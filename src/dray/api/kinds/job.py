"""Job: runs pods until enough of them have succeeded."""

from __future__ import annotations

from dray.api.kind import ALL, STATUS, Resource
from dray.api.types import batch

KIND = Resource("batch", "jobs", "Job", batch.Job, categories=ALL, subresources=STATUS)
