"""Service: one address for a set of pods."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import msgspec

from dray.api import names
from dray.api.addresses import BAD_IP, address_of
from dray.api.cells import NONE, labels
from dray.api.columns import AGE, NAME, text, wide
from dray.api.errors import duplicate, forbidden, invalid, required, unsupported
from dray.api.kind import ALL, KindRules, Resource
from dray.api.paths import SPEC, Path
from dray.api.rules import Errors, checked, named, one_of, required_name
from dray.api.schema import CORE
from dray.api.service_fields import (
    FAMILIES,
    HEADLESS,
    IPV6,
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
    SINGLE_STACK,
    WITH_NODE_PORTS,
    family_of,
    is_headless,
    is_reached_from_outside,
    takes_cluster_addresses,
    takes_health_check_port,
    takes_node_ports,
)
from dray.api.types import core
from dray.api.types.core import ServiceSpec
from dray.api.wire import Tree

# A duplicate port as Kubernetes prints it: only with the compared fields.
_PORT = '{"Name":"","Protocol":"%s","AppProtocol":null,"Port":%d,"TargetPort":0,"NodePort":0}'
_TRAFFIC = ("Cluster", "Local")
_POLICIES = (PREFER_DUAL_STACK, REQUIRE_DUAL_STACK, SINGLE_STACK)
_MOST_ADDRESSES = 2
_FIXED = "may not change once set"


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
    """Copy the older field clusterIP to clusterIPs if that is empty. Missing addresses are assigned later."""
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


def ports(spec: ServiceSpec, path: Path) -> Errors:
    """Yield errors in the ports of a Service, and in fields that do not fit its type.

    Only headless Services and those of type ExternalName can lack ports.
    """
    if not spec.ports and not is_headless(spec) and spec.type != "ExternalName":
        yield required(path / "ports")
    if spec.type == "ExternalName":
        yield from _external_name(spec)
    if is_headless(spec) and takes_node_ports(spec):
        yield invalid(path / "clusterIPs" / 0, HEADLESS, f"may not be set to 'None' for {spec.type} services")
    yield from _ports(spec, path / "ports")


def kept_values(now: ServiceSpec, before: ServiceSpec, path: Path) -> Errors:
    """Yield errors if an update changes the primary cluster address or family, or the health check port.

    Addresses and families are not compared if either type is ExternalName or both Services are headless. The port is
    compared only if both Services can have one.
    """
    if "ExternalName" not in (before.type, now.type) and not (is_headless(before) and is_headless(now)):
        yield from _kept(before.clusterIPs, now.clusterIPs, path / "clusterIPs", "primary clusterIP can not be unset")
        if is_headless(before) == is_headless(now):
            unset = "primary ipFamily can not be unset"
            yield from _kept(before.ipFamilies, now.ipFamilies, path / "ipFamilies", unset)
    if (
        takes_health_check_port(before)
        and takes_health_check_port(now)
        and before.healthCheckNodePort != now.healthCheckNodePort
    ):
        yield forbidden(path / "healthCheckNodePort", "field is immutable")


def check_addresses(spec: ServiceSpec, _: Path = SPEC) -> Errors:
    """Yield errors in the cluster addresses that a client requests, and in their families.

    Yields nothing for the type ExternalName.
    """
    if spec.type == "ExternalName":
        return
    path, addresses = SPEC / "clusterIPs", spec.clusterIPs
    if spec.clusterIP and not addresses:
        yield required(path)
    elif spec.clusterIP and addresses[0] != spec.clusterIP:
        yield invalid(path, list(addresses), "first value must match `clusterIP`")
    elif addresses and not spec.clusterIP:
        yield invalid(path, list(addresses), "must be empty when `clusterIP` is not specified")
    for index, family in enumerate(spec.ipFamilies):
        if family not in FAMILIES:
            yield unsupported(SPEC / "ipFamilies" / index, family, FAMILIES)
        if family in spec.ipFamilies[:index]:
            yield duplicate(SPEC / "ipFamilies" / index, family)
    if spec.ipFamilyPolicy is not None and spec.ipFamilyPolicy not in _POLICIES:
        yield unsupported(SPEC / "ipFamilyPolicy", spec.ipFamilyPolicy, _POLICIES)
    wrong = list(_addresses(spec, path))
    yield from wrong
    if not wrong and not is_headless(spec):
        yield from _families(spec, path)


def _addresses(spec: ServiceSpec, path: Path) -> Errors:
    if is_headless(spec):
        if len(spec.clusterIPs) > 1:
            yield invalid(path, list(spec.clusterIPs), "'None' must be the first and only value")
        return
    for index, address in enumerate(spec.clusterIPs):
        if address_of(address) is None:
            yield invalid(path / index, address, BAD_IP)


def _families(spec: ServiceSpec, path: Path) -> Errors:
    addresses = spec.clusterIPs
    if len(addresses) > _MOST_ADDRESSES:
        yield invalid(path, list(addresses), "may only hold up to 2 values")
    if len(addresses) > 1 and len(set(map(family_of, addresses))) == 1:
        yield invalid(path, list(addresses), "may specify no more than one IP for each IP family")
    for index, (address, family) in enumerate(zip(addresses, spec.ipFamilies, strict=False)):
        if family in FAMILIES and family != family_of(address):
            article = "an IPv6" if family == IPV6 else "an IPv4"
            yield invalid(path / index, address, f"expected {article} value as indicated by `ipFamilies[{index}]`")


def _kept(before: tuple[str, ...], now: tuple[str, ...], path: Path, unset: str) -> Errors:
    """Yield errors if the first of two values changes, or both change in place. The second may be added or removed.

    `unset` is the message if all values are removed. Nothing is reported if there were no values before.
    """
    if before and not now:
        yield invalid(path / 0, None, unset)
    elif before and before[0] != now[0]:
        yield invalid(path / 0, list(now), _FIXED)
    elif len(before) == len(now) and before != now:
        yield invalid(path / 1, list(now), _FIXED)


def _external_name(spec: ServiceSpec) -> Errors:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if getattr(spec, field):
            yield forbidden(SPEC / field, "may not be set for ExternalName services")
    yield from required_name(spec.externalName.removesuffix("."), SPEC / "externalName", names.subdomain)


def traffic(spec: ServiceSpec, _: Path) -> Errors:
    """Yield errors in the traffic policies, the health check port and the allocation of node ports."""
    if spec.internalTrafficPolicy is not None:
        yield from one_of(spec.internalTrafficPolicy, _TRAFFIC, SPEC / "internalTrafficPolicy")
    path = SPEC / "externalTrafficPolicy"
    if spec.externalTrafficPolicy and not is_reached_from_outside(spec):
        text = "may only be set for externally-accessible services"
        yield invalid(path, spec.externalTrafficPolicy, text)
    elif spec.externalTrafficPolicy:
        yield from one_of(spec.externalTrafficPolicy, _TRAFFIC, path)
    port, path = spec.healthCheckNodePort, SPEC / "healthCheckNodePort"
    if port and not takes_health_check_port(spec):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid(path, port, text)
    elif port:
        yield from named(port, path, names.port_number)
    if spec.allocateLoadBalancerNodePorts is not None and spec.type != "LoadBalancer":
        text = "may only be used when `type` is 'LoadBalancer'"
        yield forbidden(SPEC / "allocateLoadBalancerNodePorts", text)


def _ports(spec: ServiceSpec, path: Path) -> Errors:
    seen_names: set[str] = set()
    seen_ports: set[tuple[str, int]] = set()
    seen_node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.ports):
        here = path / index
        if port.name:
            yield from named(port.name, here / "name", names.label)
            if port.name in seen_names:
                yield duplicate(here / "name", port.name)
            seen_names.add(port.name)
        elif len(spec.ports) > 1:
            yield required(here / "name")
        yield from checked(f"{CORE}ServicePort", port, here)
        if port.nodePort and spec.type in ("ClusterIP", "ExternalName"):
            yield forbidden(here / "nodePort", "may not be used when `type` is 'ClusterIP'")
        if port.nodePort and (port.protocol, port.nodePort) in seen_node_ports:
            yield duplicate(here / "nodePort", port.nodePort)
        seen_node_ports.add((port.protocol, port.nodePort))
        if (port.protocol, port.port) in seen_ports:
            yield duplicate(here, msgspec.Raw(_PORT % (port.protocol, port.port)))
        seen_ports.add((port.protocol, port.port))
