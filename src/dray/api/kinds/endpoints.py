"""Endpoints: the addresses of a Service; predecessor of EndpointSlice."""

from __future__ import annotations

from dray.api.cells import NONE, some
from dray.api.columns import AGE, NAME, text
from dray.api.kind import Resource
from dray.api.types import core


def _addresses(endpoints: core.Endpoints) -> str:
    found: list[str] = []
    for subset in endpoints.subsets:
        for port in subset.ports or (None,):
            found.extend(f"{a.ip}:{port.port}" if port else a.ip for a in subset.addresses)
    return some(found)


KIND = Resource(
    core.Endpoints,
    plural="endpoints",
    short_names=("ep",),
    columns=(NAME, text("Endpoints", _addresses, NONE), AGE),
    deprecated={"v1": "v1.33+; use discovery.k8s.io/v1 EndpointSlice"},
    defaults={"subsets[].ports[].protocol": "TCP"},
    is_created_by_update=True,
)
