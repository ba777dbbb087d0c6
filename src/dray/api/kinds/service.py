"""Service: one address for many pods."""

from __future__ import annotations

from operator import attrgetter

from dray.api import names
from dray.api.cells import NONE, labels
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import ALL, KindRules, Resource
from dray.api.types import core
from dray.api.wire import Tree


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


_AFFINITY_SECONDS = 10800


def _defaults(tree: Tree) -> None:
    spec = tree["spec"]
    if spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", _AFFINITY_SECONDS)
    for port in spec.get("ports") or ():
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _create(tree: Tree) -> None:
    """One address family, the cluster's only one. The address itself is given out elsewhere."""
    spec = tree.setdefault("spec", {})
    if spec.get("type") == "ExternalName":
        return
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec["ipFamilies"] = spec.get("ipFamilies") or ["IPv4"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _keep_addresses(tree: Tree, old: core.Service) -> None:
    """A client that leaves out the address means the one that the service has."""
    spec = tree.setdefault("spec", {})
    if spec.get("type") == "ExternalName":
        return
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
        value = getattr(old.spec, name)
        if value and not spec.get(name):
            spec[name] = list(value) if isinstance(value, tuple) else value
    node_ports = {(port.name, port.protocol, port.port): port.nodePort for port in old.spec.ports}
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or ():
            known = node_ports.get((port.get("name", ""), port.get("protocol", ""), port.get("port", 0)))
            if known and not port.get("nodePort"):
                port["nodePort"] = known


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
    rules=KindRules("core.create_service", "core.update_service", name=names.label_1035),
    defaults={"spec.type": "ClusterIP", "spec.sessionAffinity": "None", "spec.ports[].protocol": "TCP"},
    more_defaults=_defaults,
    on_create=_create,
    on_update={"": _keep_addresses},
    selectable={"spec.clusterIP": attrgetter("spec.clusterIP"), "spec.type": attrgetter("spec.type")},
    is_returned_when_deleted=True,
    is_created_by_update=True,
)
