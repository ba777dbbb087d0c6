"""Endpoints, network policies, and the addresses of services."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required, too_many
from dray.api.paths import SPEC, Path
from dray.api.types import core, discovery, networking
from dray.api.validation.addresses import BAD_CIDR, BAD_IP, address_of, is_network
from dray.api.validation.containers import PROTOCOLS
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, each, named, one_of, required_one_of, unchanged
from dray.api.validation.metadata import check_labels
from dray.api.validation.placement import label_selector

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_ENDPOINTS_MAX = 1000
_PORTS_MAX = 20000
_TOPOLOGY_MAX = 16
_HINTS_MAX = 8
_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
_POLICY_TYPES = ("Ingress", "Egress")


def _is_part(inner: str, outer: str) -> bool:
    """Whether a network lies in another that is larger."""
    part, whole = (ipaddress.ip_network(text, strict=False) for text in (inner, outer))
    return part.version == whole.version and part.prefixlen > whole.prefixlen and part.network_address in whole


# Endpoints and EndpointSlice


def check_endpoints(endpoints: core.Endpoints, context: Context) -> Errors:
    for index, subset in enumerate(endpoints.subsets):
        path = Path("subsets") / index
        if not subset.addresses and not subset.notReadyAddresses:
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(getattr(subset, field)):
                yield from _endpoint_address(address, path / field / position)
        for position, port in enumerate(subset.ports):
            here = path / "ports" / position
            yield from _port(port.port, port.protocol, port.appProtocol, here)
            if port.name:
                yield from named(port.name, here / "name", names.label)
            elif len(subset.ports) > 1:
                yield required(here / "name")


def _endpoint_address(address: core.EndpointAddress, path: Path) -> Errors:
    found = address_of(address.ip)
    if found is None:
        yield invalid(path / "ip", address.ip, BAD_IP)
    else:
        yield from _reachable(found, path / "ip")
    if address.hostname:
        yield from named(address.hostname, path / "hostname", names.label)
    if address.nodeName is not None:
        yield from named(address.nodeName, path / "nodeName", names.subdomain)


def _reachable(address: ipaddress.IPv4Address | ipaddress.IPv6Address, path: Path) -> Errors:
    """An address that others than this machine can mean."""
    if address.is_unspecified:
        yield invalid(path, str(address), f"may not be unspecified ({address})")
    elif address.is_loopback:
        yield invalid(path, str(address), "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    elif address.is_link_local:
        yield invalid(path, str(address), "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    elif any(address in network for network in _LOCAL_MULTICAST if network.version == address.version):
        yield invalid(path, str(address), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def _port(port: int | None, protocol: str | None, application: str | None, path: Path) -> Errors:
    if port is not None:
        yield from named(port, path / "port", names.port_number)
    yield from required_one_of(protocol, PROTOCOLS, path / "protocol")
    if application is not None:
        yield from named(application, path / "appProtocol", names.qualified_name)


def create_slice(slice_: discovery.EndpointSlice, context: Context) -> Errors:
    endpoints = slice_.endpoints or ()
    yield from _slice_ports(slice_.ports or ())
    if len(endpoints) > _ENDPOINTS_MAX:
        yield too_many("endpoints", len(endpoints), _ENDPOINTS_MAX)
    else:
        for index, endpoint in enumerate(endpoints):
            yield from _endpoint(endpoint, slice_.addressType, Path("endpoints") / index)


def _endpoint(endpoint: discovery.Endpoint, kind: str, path: Path) -> Errors:
    for index, text in enumerate(endpoint.addresses or ()):
        here = path / "addresses" / index
        if kind == "FQDN":
            yield from named(text, here, names.subdomain)
        elif kind in _ADDRESS_TYPES:
            found = address_of(text)
            if found is None:
                yield invalid(here, text, BAD_IP)
            elif f"IPv{found.version}" != kind:
                yield invalid(here, text, f"must be an {kind} address")
            # Kubernetes refuses loopback addresses here; pods of dray's nodes on one machine have no others.
    if endpoint.nodeName is not None:
        yield from named(endpoint.nodeName, path / "nodeName", names.subdomain)
    if len(endpoint.deprecatedTopology) > _TOPOLOGY_MAX:
        yield too_many(path / "deprecatedTopology", len(endpoint.deprecatedTopology), _TOPOLOGY_MAX)
    yield from check_labels(endpoint.deprecatedTopology, path / "deprecatedTopology")
    if endpoint.hostname is not None:
        yield from named(endpoint.hostname, path / "hostname", names.label)
    if endpoint.hints is not None:
        zones, nodes = ([one.name for one in hints] for hints in (endpoint.hints.forZones, endpoint.hints.forNodes))
        yield from _hints(zones, path / "hints" / "forZones", names.label_value)
        yield from _hints(nodes, path / "hints" / "forNodes", names.subdomain)


def _hints(wanted: Sequence[str], path: Path, check: names.Check) -> Errors:
    if len(wanted) > _HINTS_MAX:
        yield too_many(path, len(wanted), _HINTS_MAX)
        return
    for index, name in enumerate(wanted):
        if name in wanted[:index]:
            yield duplicate(path / index / "name", name)
        yield from named(name, path / index / "name", check)


def _slice_ports(ports: Sequence[discovery.EndpointPort]) -> Errors:
    path, seen = Path("ports"), set[str]()
    if len(ports) > _PORTS_MAX:
        yield too_many(path, len(ports), _PORTS_MAX)
        return
    for index, port in enumerate(ports):
        name = port.name or ""
        if name:
            yield from named(name, path / index / "name", names.label)
        if name in seen:
            yield duplicate(path / index / "name", name)
        seen.add(name)
        yield from _port(port.port, port.protocol, port.appProtocol, path / index)


# NetworkPolicy


def check_policy(policy: networking.NetworkPolicy, context: Context) -> Errors:
    spec = policy.spec
    yield from label_selector(spec.podSelector, SPEC / "podSelector")
    for index, ingress in enumerate(spec.ingress):
        path = SPEC / "ingress" / index
        yield from each(ingress.ports, path / "ports", _policy_port)
        yield from each(ingress.from_, path / "from", _peer)
    for index, egress in enumerate(spec.egress):
        path = SPEC / "egress" / index
        yield from each(egress.ports, path / "ports", _policy_port)
        yield from each(egress.to, path / "to", _peer)
    if len(spec.policyTypes) > len(_POLICY_TYPES):
        yield invalid(SPEC / "policyTypes", list(spec.policyTypes), "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(spec.policyTypes):
        yield from one_of(kind, _POLICY_TYPES, SPEC / "policyTypes" / index)


def _policy_port(port: networking.NetworkPolicyPort, path: Path) -> Errors:
    yield from one_of(port.protocol, ("TCP", "UDP", "SCTP"), path / "protocol")
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


def _peer(peer: networking.NetworkPolicyPeer, path: Path) -> Errors:
    yield from label_selector(peer.podSelector, path / "podSelector")
    yield from label_selector(peer.namespaceSelector, path / "namespaceSelector")
    selected = peer.podSelector is not None or peer.namespaceSelector is not None
    if peer.ipBlock is not None:
        yield from _block(peer.ipBlock, path / "ipBlock")
        if selected:
            yield forbidden(path, "may not specify both ipBlock and another peer")
    elif not selected:
        yield required(path, "must specify a peer")


def _block(block: networking.IPBlock, path: Path) -> Errors:
    if not block.cidr:
        return  # which its constraint tells
    if not is_network(block.cidr):
        yield invalid(path / "cidr", block.cidr, BAD_CIDR)
    else:
        for index, text in enumerate(block.except_):
            if not is_network(text):
                yield invalid(path / "except" / index, text, BAD_CIDR)
            elif not _is_part(text, block.cidr):
                yield invalid(path / "except" / index, text, "must be a strict subset of `cidr`")


# Addresses of services


def create_service_range(range_: networking.ServiceCIDR, context: Context) -> Errors:
    path, given = SPEC / "cidrs", range_.spec.cidrs
    if not given:
        yield required(path, "at least one CIDR required")
    elif len(given) > 2:
        yield invalid(path, range_.spec, "may only hold up to 2 values")
    elif len(given) == 2 and len({":" in text for text in given if is_network(text)}) < 2:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield invalid(path, range_.spec, text)
    else:
        for index, text in enumerate(given):
            if not is_network(text, strict=True):
                yield invalid(path / index, text, BAD_CIDR)


def update_service_range(range_: networking.ServiceCIDR, old: networking.ServiceCIDR, context: Context) -> Errors:
    yield from unchanged(range_.spec.cidrs, old.spec.cidrs, SPEC / "cidrs", list(range_.spec.cidrs))


def create_address(address: networking.IPAddress, context: Context) -> Errors:
    parent, path = address.spec.parentRef, SPEC / "parentRef"
    if parent is None:
        return  # which its constraint tells
    if parent.group:
        yield from named(parent.group, path / "group", names.subdomain)
    for field in ("resource", "name"):
        yield from named(getattr(parent, field), path / field, names.path_segment)
    if parent.namespace:
        yield from named(parent.namespace, path / "namespace", names.path_segment)
