"""Endpoints: the addresses behind a Service; the predecessor of EndpointSlice."""

from __future__ import annotations

from dray.api.kind import Resource
from dray.api.types import core

KIND = Resource("", "endpoints", "Endpoints", core.Endpoints, short_names=("ep",))
