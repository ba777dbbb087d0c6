"""ResourceQuota: how much a namespace may use."""

from __future__ import annotations

from dray.api.kind import STATUS, Resource
from dray.api.types import core

KIND = Resource("", "resourcequotas", "ResourceQuota", core.ResourceQuota, short_names=("quota",), subresources=STATUS)
