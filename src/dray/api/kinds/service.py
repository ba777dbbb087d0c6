"""Service: one address for many pods."""

from __future__ import annotations

from dray.api.kind import ALL, Resource
from dray.api.types import core

KIND = Resource(
    "", "services", "Service", core.Service, short_names=("svc",), categories=ALL, subresources=("proxy", "status")
)
