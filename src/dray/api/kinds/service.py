"""Service: one address for a set of pods."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from dray.api import names
from dray.api.cells import NONE, labels
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import ALL, KindRules, Resource
from dray.api.service_fields import (
    WITH_NODE_PORTS,
    is_reached_from_outside,
    takes_cluster_addresses,
    takes_health_check_port,
    takes_node_ports,
)
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
    if spec["type"] in WITH_NODE_PORTS or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _create(tree: Tree) -> None:
    """Copy the older field clusterIP to clusterIPs. Missing addresses are assigned later."""
    spec = tree.setdefault("spec", {})
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _update(tree: Tree, old: core.Service) -> None:
    """Keep assigned values that the client omitted, and remove values that a new type does not use."""
    spec, before = tree.setdefault("spec", {}), old.spec
    now = core.ServiceSpec(
        type=spec.get("type") or "",
        externalTrafficPolicy=spec.get("externalTrafficPolicy") or "",
        externalIPs=tuple(spec.get("externalIPs") or ()),
    )
    if takes_cluster_addresses(before):
        settle = _keep if takes_cluster_addresses(now) else _drop_unchanged
        settle(spec, before, ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"))
    addresses = tuple(spec.get("clusterIPs") or ())
    if (spec.get("clusterIP") or "") != before.clusterIP and addresses in ((), before.clusterIPs):
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []  # only clusterIP was changed
    if takes_health_check_port(before):
        (_keep if takes_health_check_port(now) else _drop_unchanged)(spec, before, ("healthCheckNodePort",))
    if takes_node_ports(before):
        (_keep_node_ports if takes_node_ports(now) else _drop_node_ports)(spec.get("ports") or (), before)
    if not takes_cluster_addresses(now):
        _drop_unchanged(spec, before, ("internalTrafficPolicy",))
    if not is_reached_from_outside(now):
        _drop_unchanged(spec, before, ("externalTrafficPolicy",))
    if now.type != "LoadBalancer":
        _drop_unchanged(spec, before, ("allocateLoadBalancerNodePorts", "loadBalancerClass"))


def _keep(spec: Tree, old: core.ServiceSpec, names: Sequence[str]) -> None:
    for name in names:
        value = getattr(old, name)
        if value and not spec.get(name) and not (name == "clusterIPs" and spec.get("clusterIP") != old.clusterIP):
            spec[name] = list(value) if isinstance(value, tuple) else value


def _drop_unchanged(spec: Tree, old: core.ServiceSpec, names: Sequence[str]) -> None:
    for name in names:
        value = getattr(old, name)
        if value not in (None, "", ()) and spec.get(name) == (list(value) if isinstance(value, tuple) else value):
            del spec[name]


def _keep_node_ports(ports: Sequence[Tree], old: core.ServiceSpec) -> None:
    """Keep the node ports of ports with the same name, unless another port requests the same number."""
    used = {port.get("nodePort") for port in ports}
    known = {port.name: port.nodePort for port in old.ports if port.nodePort not in used}
    for port in ports:
        if not port.get("nodePort") and known.get(port.get("name") or ""):
            port["nodePort"] = known[port.get("name") or ""]


def _drop_node_ports(ports: Sequence[Tree], old: core.ServiceSpec) -> None:
    if [port.get("nodePort") or 0 for port in ports] == [port.nodePort for port in old.ports]:
        for port in ports:
            port.pop("nodePort", None)


KIND = Resource(
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
    rules=KindRules(name=names.label_1035),
    defaults={"spec.type": "ClusterIP", "spec.sessionAffinity": "None", "spec.ports[].protocol": "TCP"},
    more_defaults=_defaults,
    on_create=_create,
    on_update={"": _update},
    selectable={"spec.clusterIP": attrgetter("spec.clusterIP"), "spec.type": attrgetter("spec.type")},
    is_returned_when_deleted=True,
    is_created_by_update=True,
)
