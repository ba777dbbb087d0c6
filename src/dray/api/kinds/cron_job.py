"""CronJob: creates Jobs by a schedule."""

from __future__ import annotations

from dray.api.kind import ALL, STATUS, Resource
from dray.api.types import batch

KIND = Resource("batch", "cronjobs", "CronJob", batch.CronJob, short_names=("cj",), categories=ALL, subresources=STATUS)
