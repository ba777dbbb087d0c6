"""EndpointSlice: some of the addresses behind a Service."""

from __future__ import annotations

from dray.api.kind import Resource
from dray.api.types import discovery

KIND = Resource("discovery.k8s.io", "endpointslices", "EndpointSlice", discovery.EndpointSlice)
