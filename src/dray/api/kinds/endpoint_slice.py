"""EndpointSlice: some of the addresses of a Service."""

from __future__ import annotations

from dray.api.cells import UNSET, some
from dray.api.columns import AGE, NAME, text
from dray.api.kind import Resource
from dray.api.types import discovery


def _ports(slice_: discovery.EndpointSlice) -> str:
    return some([str(port.port) if port.port is not None else "*" for port in slice_.ports or ()])


def _addresses(slice_: discovery.EndpointSlice) -> str:
    return some([address for endpoint in slice_.endpoints or () for address in endpoint.addresses or ()])


KIND = Resource(
    discovery.EndpointSlice,
    columns=(
        NAME,
        text("AddressType", "addressType"),
        text("Ports", _ports, UNSET),
        text("Endpoints", _addresses, UNSET),
        AGE,
    ),
    generation=("endpoints", "ports"),
    defaults={"ports[].name": "", "ports[].protocol": "TCP"},
)
