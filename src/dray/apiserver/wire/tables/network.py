"""Rows of traffic: endpoints, network policies, ingress, addresses of services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api.types import core, discovery, networking
from dray.apiserver.wire.tables.printer import AGE, NAME, Cell, Printer, plain
from dray.apiserver.wire.tables.text import NONE, UNSET, age, selector

_SHOWN = 3


def _some(items: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = f" + {len(items) - _SHOWN} more..." if len(items) > _SHOWN else ""
    return ",".join(items[:_SHOWN]) + more


def _endpoints(obj: core.Endpoints, now: float) -> list[Cell]:
    found: list[str] = []
    for subset in obj.subsets:
        for port in subset.ports or (None,):
            ends = (f"{a.ip}:{port.port}" if port else a.ip for a in subset.addresses)
            found.extend(ends)
    return [obj.metadata.name, _some(found) or NONE, age(obj.metadata.creationTimestamp, now)]


def _slice(obj: discovery.EndpointSlice, now: float) -> list[Cell]:
    ports = [str(port.port) if port.port is not None else "*" for port in obj.ports or ()]
    addresses = [address for endpoint in obj.endpoints or () for address in endpoint.addresses or ()]
    return [
        obj.metadata.name,
        obj.addressType,
        _some(ports) or UNSET,
        _some(addresses) or UNSET,
        age(obj.metadata.creationTimestamp, now),
    ]


def _policy(obj: networking.NetworkPolicy, now: float) -> list[Cell]:
    return [obj.metadata.name, selector(obj.spec.podSelector), age(obj.metadata.creationTimestamp, now)]


def _ingress(obj: networking.Ingress, now: float) -> list[Cell]:
    spec = obj.spec
    return [
        obj.metadata.name,
        spec.ingressClassName or NONE,
        _hosts(spec.rules),
        ",".join(found.ip or found.hostname for found in obj.status.loadBalancer.ingress),
        "80, 443" if spec.tls else "80",
        age(obj.metadata.creationTimestamp, now),
    ]


def _hosts(rules: Iterable[networking.IngressRule]) -> str:
    hosts = [rule.host or "*" for rule in rules]
    return _some(hosts) or "*"


def _ingress_class(obj: networking.IngressClass, now: float) -> list[Cell]:
    found = obj.spec.parameters
    text = NONE
    if found is not None:
        kind = f"{found.kind}.{found.apiGroup}" if found.apiGroup else found.kind
        text = f"{kind}/{found.name}"
    return [obj.metadata.name, obj.spec.controller, text, age(obj.metadata.creationTimestamp, now)]


def _service_range(obj: networking.ServiceCIDR, now: float) -> list[Cell]:
    return [obj.metadata.name, ",".join(obj.spec.cidrs), age(obj.metadata.creationTimestamp, now)]


def _address(obj: networking.IPAddress, now: float) -> list[Cell]:
    parent = obj.spec.parentRef
    parts = (parent.group, parent.resource, parent.namespace, parent.name) if parent else ()
    return [obj.metadata.name, "/".join(filter(None, parts)), age(obj.metadata.creationTimestamp, now)]


ENDPOINTS = Printer((NAME, *plain("Endpoints"), AGE), _endpoints)
SLICE = Printer((NAME, *plain("AddressType", "Ports", "Endpoints"), AGE), _slice)
POLICY = Printer((NAME, *plain("Pod-Selector"), AGE), _policy)
INGRESS = Printer((NAME, *plain("Class", "Hosts", "Address", "Ports"), AGE), _ingress)
INGRESS_CLASS = Printer((NAME, *plain("Controller", "Parameters"), AGE), _ingress_class)
SERVICE_RANGE = Printer((NAME, *plain("CIDRs"), AGE), _service_range)
ADDRESS = Printer((NAME, *plain("ParentRef"), AGE), _address)
