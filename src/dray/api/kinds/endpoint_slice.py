"""EndpointSlice: some of the addresses of a Service."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api import names
from dray.api.addresses import BAD_IP, address_of
from dray.api.cells import UNSET, some
from dray.api.columns import AGE, NAME, text
from dray.api.errors import duplicate, invalid
from dray.api.kind import Resource
from dray.api.paths import Path
from dray.api.rules import Errors, checked, named
from dray.api.types import discovery

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_DISCOVERY = "io.k8s.api.discovery.v1."


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


def endpoints(slice_: discovery.EndpointSlice, _: Path | None) -> Errors:
    """Yield errors in the endpoints of an EndpointSlice and in their addresses."""
    for index, endpoint in enumerate(slice_.endpoints or ()):
        path = Path("endpoints") / index
        for position, address in enumerate(endpoint.addresses or ()):
            yield from _address(address, slice_.addressType, path / "addresses" / position)
        yield from checked(f"{_DISCOVERY}Endpoint", endpoint, path)


def _address(text: str, kind: str, path: Path) -> Errors:
    # Kubernetes rejects loopback addresses here, but pods of dray's local nodes have no others.
    if kind == "FQDN":
        yield from named(text, path, names.subdomain)
    elif kind in _ADDRESS_TYPES:
        found = address_of(text)
        if found is None:
            yield invalid(path, text, BAD_IP)
        elif f"IPv{found.version}" != kind:
            yield invalid(path, text, f"must be an {kind} address")


def slice_ports(ports: Sequence[discovery.EndpointPort], path: Path) -> Errors:
    """Yield errors in the ports of an EndpointSlice, including duplicate names.

    A missing name counts as an empty one, which only one port can have.
    """
    seen: set[str] = set()
    for index, port in enumerate(ports):
        name = port.name or ""
        if name:
            yield from named(name, path / index / "name", names.label)
        if name in seen:
            yield duplicate(path / index / "name", name)
        seen.add(name)
        yield from checked(f"{_DISCOVERY}EndpointPort", port, path / index)
