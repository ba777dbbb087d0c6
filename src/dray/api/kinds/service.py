"""Service: one address for many pods."""

from __future__ import annotations

from dray.api.cells import NONE, labels
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import ALL, Resource
from dray.api.types import core


def _external_address(service: core.Service) -> str:
    spec = service.spec
    if spec.type == "ExternalName":
        return spec.externalName
    addresses = list(spec.externalIPs)
    if spec.type == "LoadBalancer":
        addresses = [i.ip or i.hostname for i in service.status.loadBalancer.ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _port(port: core.ServicePort) -> str:
    node = f":{port.nodePort}" if port.nodePort else ""
    return f"{port.port}{node}/{port.protocol}"


KIND = Resource(
    "",
    "services",
    "Service",
    core.Service,
    short_names=("svc",),
    categories=ALL,
    subresources=("proxy", "status"),
    columns=(
        NAME,
        text("Type", "spec.type"),
        text(
            "Cluster-IP",
            lambda service: service.spec.clusterIPs[0] if service.spec.clusterIPs else service.spec.clusterIP,
            NONE,
        ),
        text("External-IP", _external_address),
        text("Port(s)", lambda service: ",".join(map(_port, service.spec.ports)), NONE),
        AGE,
        wide("Selector", lambda service: labels(service.spec.selector)),
    ),
)
