"""Endpoints: the addresses of a Service; predecessor of EndpointSlice."""

from __future__ import annotations

import ipaddress

from dray.api import names
from dray.api.addresses import BAD_IP, address_of
from dray.api.cells import NONE, some
from dray.api.columns import AGE, NAME, text
from dray.api.errors import invalid, required
from dray.api.kind import Resource
from dray.api.paths import Path
from dray.api.rules import Errors, checked, named
from dray.api.schema import CORE
from dray.api.types import core

_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


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


def subset_ports(subset: core.EndpointSubset, path: Path) -> Errors:
    """Yield errors in the ports of an Endpoints subset; if there are several, each needs a name."""
    for position, port in enumerate(subset.ports):
        here = path / "ports" / position
        yield from checked(f"{CORE}EndpointPort", port, here)
        if port.name:
            yield from named(port.name, here / "name", names.label)
        elif len(subset.ports) > 1:
            yield required(here / "name")


def endpoint_address(text: str, path: Path) -> Errors:
    """Yield an error if the address is invalid or only meaningful on one machine (loopback, link-local)."""
    address = address_of(text)
    if address is None:
        yield invalid(path, text, BAD_IP)
    elif address.is_unspecified:
        yield invalid(path, str(address), f"may not be unspecified ({address})")
    elif address.is_loopback:
        yield invalid(path, str(address), "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    elif address.is_link_local:
        yield invalid(path, str(address), "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    elif any(address in network for network in _LOCAL_MULTICAST if network.version == address.version):
        yield invalid(path, str(address), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
