"""Rules for endpoints, network policies and service addresses that cannot be expressed as steps."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from dray.api import names
from dray.api.addresses import BAD_CIDR, BAD_IP, address_of, is_network
from dray.api.constraints import checked
from dray.api.errors import duplicate, forbidden, invalid, required
from dray.api.paths import Path
from dray.api.schema import CORE
from dray.api.types import core, discovery, networking
from dray.api.validation.lists import Errors, named

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_DISCOVERY = "io.k8s.api.discovery.v1."
_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def _is_part(inner: str, outer: str) -> bool:
    """Return whether a network is a strict subset of another."""
    part, whole = (ipaddress.ip_network(text, strict=False) for text in (inner, outer))
    return part.version == whole.version and part.prefixlen > whole.prefixlen and part.network_address in whole


# Endpoints and EndpointSlice


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


def endpoints(slice_: discovery.EndpointSlice, _: Path | None) -> Errors:
    """Yield errors in the endpoints of an EndpointSlice and in their addresses."""
    for index, endpoint in enumerate(slice_.endpoints or ()):
        path = Path("endpoints") / index
        for position, text in enumerate(endpoint.addresses or ()):
            yield from _address(text, slice_.addressType, path / "addresses" / position)
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
    """Yield errors in the ports of an EndpointSlice, including duplicate names."""
    seen: set[str] = set()
    for index, port in enumerate(ports):
        name = port.name or ""
        if name:
            yield from named(name, path / index / "name", names.label)
        if name in seen:
            yield duplicate(path / index / "name", name)
        seen.add(name)
        yield from checked(f"{_DISCOVERY}EndpointPort", port, path / index)


# NetworkPolicy


def policy_port(port: networking.NetworkPolicyPort, path: Path) -> Errors:
    """Yield errors in the port or port range of a NetworkPolicy."""
    if isinstance(port.port, int):
        yield from named(port.port, path / "port", names.port_number)
        if port.endPort is not None:
            if port.endPort < port.port:
                yield invalid(path / "endPort", port.port, "must be greater than or equal to `port`")
            yield from named(port.endPort, path / "endPort", names.port_number)
    elif isinstance(port.port, str):
        yield from named(port.port, path / "port", names.port_name)
        if port.endPort is not None:
            yield invalid(path / "endPort", port.endPort, "may not be specified when `port` is non-numeric")
    elif port.endPort is not None:
        yield invalid(path / "endPort", port.endPort, "may not be specified when `port` is not specified")


def peer(value: networking.NetworkPolicyPeer, path: Path) -> Errors:
    """Yield an error unless a NetworkPolicy peer has either an ipBlock or selectors."""
    selected = value.podSelector is not None or value.namespaceSelector is not None
    if value.ipBlock is not None and selected:
        yield forbidden(path, "may not specify both ipBlock and another peer")
    elif value.ipBlock is None and not selected:
        yield required(path, "must specify a peer")


def block(value: networking.IPBlock, path: Path) -> Errors:
    """Yield errors if an ipBlock is not a network, or an exception is not a strict subset of it."""
    if not value.cidr:
        return  # a schema constraint reports this
    if not is_network(value.cidr):
        yield invalid(path / "cidr", value.cidr, BAD_CIDR)
    else:
        for index, text in enumerate(value.except_):
            if not is_network(text):
                yield invalid(path / "except" / index, text, BAD_CIDR)
            elif not _is_part(text, value.cidr):
                yield invalid(path / "except" / index, text, "must be a strict subset of `cidr`")


# Addresses of services


def service_ranges(spec: networking.ServiceCIDRSpec, path: Path) -> Errors:
    """Yield errors unless a ServiceCIDR has one or two networks of different IP families."""
    here, given = path / "cidrs", spec.cidrs
    if not given:
        yield required(here, "at least one CIDR required")
    elif len(given) > 2:
        yield invalid(here, spec, "may only hold up to 2 values")
    elif len(given) == 2 and len({":" in text for text in given if is_network(text)}) < 2:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield invalid(here, spec, text)
    else:
        for index, text in enumerate(given):
            if not is_network(text, strict=True):
                yield invalid(here / index, text, BAD_CIDR)
