"""Properties of a Service that follow from its fields: cluster addresses, node ports and address families.

Used by defaulting, validation and the assignment of addresses. `apiserver/write/service_addresses.py` finds free
addresses and ports.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.types.core import Service, ServiceSpec

HEADLESS = "None"
IPV4, IPV6 = "IPv4", "IPv6"
FAMILIES = (IPV4, IPV6)
SINGLE_STACK, PREFER_DUAL_STACK, REQUIRE_DUAL_STACK = "SingleStack", "PreferDualStack", "RequireDualStack"
WITH_NODE_PORTS = ("NodePort", "LoadBalancer")


def family_of(address: str) -> str:
    return IPV6 if ":" in address else IPV4


def is_headless(spec: ServiceSpec) -> bool:
    return spec.clusterIP == HEADLESS or spec.clusterIPs[:1] == (HEADLESS,)


def takes_cluster_addresses(spec: ServiceSpec) -> bool:
    """Return whether a Service has cluster addresses; "None" counts as an address."""
    return spec.type != "ExternalName"


def takes_node_ports(spec: ServiceSpec) -> bool:
    return spec.type in WITH_NODE_PORTS


def assigns_node_ports(spec: ServiceSpec) -> bool:
    """Return whether ports without a requested node port get one assigned."""
    return spec.type == "NodePort" or (spec.type == "LoadBalancer" and spec.allocateLoadBalancerNodePorts is not False)


def takes_health_check_port(spec: ServiceSpec) -> bool:
    return spec.type == "LoadBalancer" and spec.externalTrafficPolicy == "Local"


def is_reached_from_outside(spec: ServiceSpec) -> bool:
    """Return whether externalTrafficPolicy has an effect."""
    return takes_node_ports(spec) or (spec.type == "ClusterIP" and bool(spec.externalIPs))


def addresses_of(service: Service | None) -> frozenset[str]:
    """Return the cluster addresses of a Service; empty for None."""
    if service is None or service.spec.type == "ExternalName":
        return frozenset()
    return frozenset(service.spec.clusterIPs) - {HEADLESS, ""}


def node_ports_of(service: Service | None) -> frozenset[int]:
    """Return the node ports of a Service, including the one for health checks; empty for None."""
    return frozenset(_node_ports(service.spec)) if service is not None else frozenset()


def _node_ports(spec: ServiceSpec) -> Iterator[int]:
    if takes_node_ports(spec):
        yield from (port.nodePort for port in spec.ports if port.nodePort)
    if takes_health_check_port(spec) and spec.healthCheckNodePort:
        yield spec.healthCheckNodePort
