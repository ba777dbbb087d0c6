"""Endpoints, network policies, ingress, and the addresses of services."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required, too_many, unsupported
from dray.api.types import core, discovery, networking
from dray.api.validation.containers import PROTOCOLS
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, each, named, required_name, unchanged
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.validation.paths import SPEC, Path
from dray.api.validation.placement import label_selector

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_ENDPOINTS_MAX = 1000
_ADDRESSES_MAX = 100
_PORTS_MAX = 20000
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_POLICY_TYPES = ("Egress", "Ingress")
_BAD_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_BAD_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_network(text: str, strict: bool = False) -> bool:
    try:
        ipaddress.ip_network(text, strict=strict)
    except ValueError:
        return False
    return "/" in text


def _is_part(inner: str, outer: str) -> bool:
    """Whether a network lies in another that is larger."""
    part, whole = (ipaddress.ip_network(text, strict=False) for text in (inner, outer))
    return part.version == whole.version and part.prefixlen > whole.prefixlen and part.network_address in whole


# Endpoints and EndpointSlice


def create_endpoints(endpoints: core.Endpoints, context: Context) -> Errors:
    yield from metadata(endpoints.metadata, namespaced=True)
    yield from _subsets(endpoints.subsets)


def update_endpoints(endpoints: core.Endpoints, old: core.Endpoints, context: Context) -> Errors:
    yield from metadata_update(endpoints.metadata, old.metadata)
    yield from _subsets(endpoints.subsets)


def _subsets(subsets: Sequence[core.EndpointSubset]) -> Errors:
    for index, subset in enumerate(subsets):
        path = Path("subsets") / index
        if not subset.addresses and not subset.notReadyAddresses:
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(getattr(subset, field)):
                yield from _endpoint_address(address, path / field / position)
        for position, port in enumerate(subset.ports):
            here = path / "ports" / position
            yield from _port(port.port, port.protocol, here)
            if port.name:
                yield from named(port.name, here / "name", names.label)
            elif len(subset.ports) > 1:
                yield required(here / "name")


def _endpoint_address(address: core.EndpointAddress, path: Path) -> Errors:
    found = _address(address.ip)
    if found is None:
        yield invalid(path / "ip", address.ip, _BAD_IP)
    elif found.is_unspecified:
        yield invalid(path / "ip", address.ip, f"may not be unspecified ({found})")
    elif found.is_loopback:
        yield invalid(path / "ip", address.ip, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    elif found.is_link_local:
        yield invalid(path / "ip", address.ip, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if address.hostname:
        yield from named(address.hostname, path / "hostname", names.label)


def _port(port: int | None, protocol: str | None, path: Path) -> Errors:
    if port is not None:
        for text in names.port_number(port):
            yield invalid(path / "port", port, text)
    if not protocol:
        yield required(path / "protocol")
    elif protocol not in PROTOCOLS:
        yield unsupported(path / "protocol", protocol, PROTOCOLS)


def create_slice(slice_: discovery.EndpointSlice, context: Context) -> Errors:
    yield from metadata(slice_.metadata, namespaced=True)
    yield from _slice(slice_)


def update_slice(slice_: discovery.EndpointSlice, old: discovery.EndpointSlice, context: Context) -> Errors:
    yield from metadata_update(slice_.metadata, old.metadata)
    yield from _slice(slice_)
    yield from unchanged(slice_.addressType, old.addressType, Path("addressType"), slice_.addressType)


def _slice(slice_: discovery.EndpointSlice) -> Errors:
    if not slice_.addressType:
        yield required("addressType")
    elif slice_.addressType not in _ADDRESS_TYPES:
        yield unsupported("addressType", slice_.addressType, _ADDRESS_TYPES)
    endpoints = slice_.endpoints or ()
    if len(endpoints) > _ENDPOINTS_MAX:
        yield too_many("endpoints", len(endpoints), _ENDPOINTS_MAX)
    else:
        for index, endpoint in enumerate(endpoints):
            yield from _endpoint(endpoint, slice_.addressType, Path("endpoints") / index)
    yield from _slice_ports(slice_.ports or ())


def _endpoint(endpoint: discovery.Endpoint, kind: str, path: Path) -> Errors:
    if not endpoint.addresses:
        yield required(path / "addresses", "must contain at least 1 address")
    elif len(endpoint.addresses) > _ADDRESSES_MAX:
        yield too_many(path / "addresses", len(endpoint.addresses), _ADDRESSES_MAX)
    for index, text in enumerate(endpoint.addresses or ()):
        here = path / "addresses" / index
        if kind == "FQDN":
            yield from named(text, here, names.subdomain)
        elif kind in _ADDRESS_TYPES:
            found = _address(text)
            if found is None or f"IPv{found.version}" != kind:
                yield invalid(here, text, f"must be a valid {kind} address")
    if endpoint.nodeName is not None:
        yield from named(endpoint.nodeName, path / "nodeName", names.subdomain)
    if endpoint.hostname is not None:
        yield from named(endpoint.hostname, path / "hostname", names.label)


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
        yield from _port(port.port, port.protocol, path / index)


# NetworkPolicy


def create_policy(policy: networking.NetworkPolicy, context: Context) -> Errors:
    yield from metadata(policy.metadata, namespaced=True)
    yield from _policy_spec(policy.spec)


def update_policy(policy: networking.NetworkPolicy, old: networking.NetworkPolicy, context: Context) -> Errors:
    yield from metadata_update(policy.metadata, old.metadata)
    yield from _policy_spec(policy.spec)


def _policy_spec(spec: networking.NetworkPolicySpec) -> Errors:
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
        if kind not in _POLICY_TYPES:
            yield unsupported(SPEC / "policyTypes" / index, kind, _POLICY_TYPES)


def _policy_port(port: networking.NetworkPolicyPort, path: Path) -> Errors:
    if port.protocol is not None and port.protocol not in PROTOCOLS:
        yield unsupported(path / "protocol", port.protocol, PROTOCOLS)
    if isinstance(port.port, int):
        for text in names.port_number(port.port):
            yield invalid(path / "port", port.port, text)
        if port.endPort is not None and port.endPort < port.port:
            yield invalid(path / "endPort", port.endPort, "must be greater than or equal to `port`")
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
        block, here = peer.ipBlock, path / "ipBlock"
        if not _is_network(block.cidr):
            yield invalid(here / "cidr", block.cidr, _BAD_CIDR)
        for index, text in enumerate(block.except_):
            if not _is_network(text):
                yield invalid(here / "except" / index, text, _BAD_CIDR)
            elif _is_network(block.cidr) and not _is_part(text, block.cidr):
                yield invalid(here / "except" / index, text, "must be a strict subset of `cidr`")
        if selected:
            yield forbidden(path, "may not specify both ipBlock and another peer")
    elif not selected:
        yield required(path, "must specify a peer")


# Ingress


def create_ingress(ingress: networking.Ingress, context: Context) -> Errors:
    yield from metadata(ingress.metadata, namespaced=True)
    yield from _ingress_spec(ingress.spec)


def update_ingress(ingress: networking.Ingress, old: networking.Ingress, context: Context) -> Errors:
    yield from metadata_update(ingress.metadata, old.metadata)
    yield from _ingress_spec(ingress.spec)


def _ingress_spec(spec: networking.IngressSpec) -> Errors:
    if not spec.rules and spec.defaultBackend is None:
        yield invalid(SPEC, None, "either `defaultBackend` or `rules` must be specified")
    if spec.defaultBackend is not None:
        yield from _backend(spec.defaultBackend, SPEC / "defaultBackend")
    for index, tls in enumerate(spec.tls):
        for position, host in enumerate(tls.hosts):
            yield from _host(host, SPEC / "tls" / index / "hosts" / position)
    for index, rule in enumerate(spec.rules):
        path = SPEC / "rules" / index
        if rule.host:
            yield from _host(rule.host, path / "host")
        if rule.http is not None:
            if not rule.http.paths:
                yield required(path / "http" / "paths")
            yield from each(rule.http.paths, path / "http" / "paths", _http_path)
    if spec.ingressClassName is not None:
        yield from named(spec.ingressClassName, SPEC / "ingressClassName", names.subdomain)


def _host(host: str, path: Path) -> Errors:
    if _address(host) is not None:
        yield invalid(path, host, "must be a DNS name, not an IP address")
    else:
        yield from named(host.removeprefix("*."), path, names.subdomain)


def _http_path(item: networking.HTTPIngressPath, path: Path) -> Errors:
    if item.pathType is None:
        yield required(path / "pathType", "pathType must be specified")
    elif item.pathType not in _PATH_TYPES:
        yield unsupported(path / "pathType", item.pathType, _PATH_TYPES)
    elif (item.path or item.pathType != "ImplementationSpecific") and not item.path.startswith("/"):
        yield invalid(path / "path", item.path, "must be an absolute path")
    yield from _backend(item.backend, path / "backend")


def _backend(backend: networking.IngressBackend, path: Path) -> Errors:
    if backend.service is not None and backend.resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif backend.resource is not None:
        for field in ("kind", "name"):
            if not getattr(backend.resource, field):
                yield required(path / "resource" / field)
    elif backend.service is not None:
        yield from _service_backend(backend.service, path)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _service_backend(service: networking.IngressServiceBackend, path: Path) -> Errors:
    yield from required_name(service.name, path / "service" / "name", names.label_1035)
    port, here = service.port, path / "service" / "port"
    if port.name and port.number:
        yield invalid(path, "", "cannot set both port name & port number")
    elif port.name:
        yield from named(port.name, here / "name", names.port_name)
    elif port.number:
        for text in names.port_number(port.number):
            yield invalid(here / "number", port.number, text)
    else:
        yield required(path, "port name or number is required")


def create_ingress_class(class_: networking.IngressClass, context: Context) -> Errors:
    yield from metadata(class_.metadata, namespaced=False)
    yield from _ingress_class_spec(class_.spec)


def update_ingress_class(class_: networking.IngressClass, old: networking.IngressClass, context: Context) -> Errors:
    yield from metadata_update(class_.metadata, old.metadata)
    yield from unchanged(class_.spec.controller, old.spec.controller, SPEC / "controller", class_.spec.controller)
    yield from _ingress_class_spec(class_.spec)


def _ingress_class_spec(spec: networking.IngressClassSpec) -> Errors:
    path = SPEC / "controller"
    if not spec.controller:
        yield required(path)
    else:
        domain, slash, rest = spec.controller.partition("/")
        if not slash or not domain or not rest:
            yield invalid(path, spec.controller, 'must be a domain-prefixed path (such as "acme.io/foo")')
        else:
            yield from named(domain, path, names.subdomain)
    parameters, here = spec.parameters, SPEC / "parameters"
    if parameters is not None:
        for field in ("kind", "name"):
            if not getattr(parameters, field):
                yield required(here / field, f"{field} is required")
        if parameters.scope not in ("Cluster", "Namespace"):
            yield unsupported(here / "scope", parameters.scope, ("Cluster", "Namespace"))
        elif parameters.scope == "Namespace" and not parameters.namespace:
            yield required(here / "namespace", "`parameters.scope` is set to 'Namespace'")


# Addresses of services


def create_service_range(range_: networking.ServiceCIDR, context: Context) -> Errors:
    yield from metadata(range_.metadata, namespaced=False)
    path = SPEC / "cidrs"
    if not range_.spec.cidrs:
        yield required(path, "at least one CIDR required")
    elif len(range_.spec.cidrs) > 2:
        yield invalid(SPEC, range_.spec, "may only hold up to 2 values")
    for index, text in enumerate(range_.spec.cidrs):
        if not _is_network(text, strict=True):
            yield invalid(path / index, text, _BAD_CIDR)


def update_service_range(range_: networking.ServiceCIDR, old: networking.ServiceCIDR, context: Context) -> Errors:
    yield from metadata_update(range_.metadata, old.metadata)
    yield from unchanged(range_.spec.cidrs, old.spec.cidrs, SPEC / "cidrs", list(range_.spec.cidrs))


def create_address(address: networking.IPAddress, context: Context) -> Errors:
    yield from metadata(address.metadata, namespaced=False, name_check=_ip_name)
    parent, path = address.spec.parentRef, SPEC / "parentRef"
    if parent is None:
        yield required(path)
        return
    for field in ("resource", "name"):
        if not getattr(parent, field):
            yield required(path / field)


def update_address(address: networking.IPAddress, old: networking.IPAddress, context: Context) -> Errors:
    yield from metadata_update(address.metadata, old.metadata)
    yield from unchanged(address.spec.parentRef, old.spec.parentRef, SPEC / "parentRef", address.spec.parentRef)


def _ip_name(text: str) -> Sequence[str]:
    found = _address(text)
    return [] if found is not None and str(found) == text else ["must be a canonical format IP address"]
