"""System objects that every cluster has: created at the first start, and repaired at every later start.

Missing rules of roles and subjects of bindings are restored unless the autoupdate annotation is "false"; additions
are kept. Other system objects are namespaces, priority classes, the Service of the API server, and in each namespace
the default service account and the ConfigMap with the CA certificate. `dray.apiserver.bootstrap` writes them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import msgspec

from dray.api.resources import BY_TYPE, Resource
from dray.api.times import timestamp
from dray.api.types.core import ConfigMap, Namespace, Service, ServiceAccount, ServiceSpec
from dray.api.types.networking import ServiceCIDR
from dray.api.types.rbac import ClusterRole, ClusterRoleBinding
from dray.api.types.scheduling import PriorityClass
from dray.api.wire import Tree, Wire
from dray.apiserver.read.reader import Reader, many, one
from dray.apiserver.security.authorization.policy import (
    AGGREGATED,
    AGGREGATES,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    CONTROLLER_PREFIX,
    CONTROLLERS,
    RBAC,
    BootstrapBinding,
    RuleTree,
)

Wanted = tuple[Resource, Tree]

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
DEFAULTS_LABEL = "kubernetes.io/bootstrapping"
AGGREGATE_LABEL = "rbac.authorization.k8s.io/aggregate-to-"
NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
ROOT_CA = "kube-root-ca.crt"
API_SERVICE = "kubernetes"
SERVICE_RANGE = "kubernetes"  # name of the built-in ServiceCIDR
PRIORITIES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (2_000_001_000, "Pods that must not be moved from their node."),
}


def wanted(reader: Reader, root_ca: str = "", address: str = "") -> Iterator[Wanted]:
    """Yield the objects to write at start: new ones (without resourceVersion) and repaired ones, each complete.

    `root_ca` is the CA certificate; if empty, no ConfigMap is created. `address` is HOST:PORT of the server; if
    empty, no Service is created.
    """
    for name in NAMESPACES:
        if one(reader, Namespace, "", name) is None:
            yield BY_TYPE[Namespace], namespace(name)
    existing = {found.metadata.name for found in many(reader, Namespace)}
    for name in sorted({*NAMESPACES, *existing}):
        for resource, tree in namespace_defaults(name, root_ca):
            if reader.get(resource, name, tree["metadata"]["name"]) is None:
                yield resource, tree
    for name, (value, text) in PRIORITIES.items():
        if one(reader, PriorityClass, "", name) is None:
            yield BY_TYPE[PriorityClass], _priority_class(name, value, text)
    if one(reader, ServiceCIDR, "", SERVICE_RANGE) is None:
        yield BY_TYPE[ServiceCIDR], _service_range()
    if address:
        service = _moved(one(reader, Service, "default", API_SERVICE), api_service(address))
        if service is not None:
            yield BY_TYPE[Service], service
    for resource, tree in policy():
        repaired = _repaired(reader.get(resource, "", tree["metadata"]["name"]), tree)
        if repaired is not None:
            yield resource, repaired


def policy() -> Iterator[Wanted]:
    """Yield the roles and bindings of a new cluster."""
    for name, rules in CLUSTER_ROLES.items():
        yield BY_TYPE[ClusterRole], _cluster_role(name, rules)
    for name, rules in CONTROLLERS.items():
        yield BY_TYPE[ClusterRole], _cluster_role(CONTROLLER_PREFIX + name, rules)
    for name, rules in AGGREGATED.items():
        role = _cluster_role(f"system:aggregate-to-{name}", rules)
        role["metadata"]["labels"][AGGREGATE_LABEL + name] = "true"
        yield BY_TYPE[ClusterRole], role
    for name, parts in AGGREGATES.items():
        role = _cluster_role(name, ())
        role["rules"] = None
        selectors = [{"matchLabels": {AGGREGATE_LABEL + part: "true"}} for part in parts]
        role["aggregationRule"] = {"clusterRoleSelectors": selectors}
        yield BY_TYPE[ClusterRole], role
    for binding in CLUSTER_BINDINGS:
        yield BY_TYPE[ClusterRoleBinding], _cluster_binding(binding)


def namespace(name: str) -> Tree:
    """Return a new Namespace as the server would store it."""
    labels = {"kubernetes.io/metadata.name": name}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": _metadata(name, labels=labels),
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def namespace_defaults(name: str, root_ca: str = "") -> Iterator[Wanted]:
    """Yield the objects that every namespace has: the default ServiceAccount and the CA ConfigMap.

    `root_ca` is the CA certificate; if empty, there is no ConfigMap.
    """
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata("default", name)}
    yield BY_TYPE[ServiceAccount], account
    if root_ca:
        note = {"kubernetes.io/description": "Contains the certificate that pods trust to reach the API server."}
        metadata = _metadata(ROOT_CA, name, annotations=note)
        yield (
            BY_TYPE[ConfigMap],
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": root_ca}},
        )


def api_service(address: str) -> Tree:
    """Return the Service of the API server. `address` is HOST:PORT of the server.

    Its cluster IP is the server's own address, because there is no service network.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    spec = {
        "type": "ClusterIP",
        "clusterIP": host,
        "clusterIPs": [host],
        "ipFamilies": ["IPv6" if ":" in host else "IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
        "ports": [{"name": "https", "protocol": "TCP", "port": int(port), "targetPort": int(port)}],
    }
    labels = {"component": "apiserver", "provider": "kubernetes"}
    metadata = _metadata(API_SERVICE, "default", labels=labels)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, "status": {"loadBalancer": {}}}


def _service_range() -> Tree:
    """Return the built-in ServiceCIDR."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": _metadata(SERVICE_RANGE),
        "spec": {"cidrs": ["10.96.0.0/12"]},
        "status": {},
    }


def _metadata(name: str, namespace: str = "", **maps: dict[str, str]) -> Tree:
    now = timestamp(time.time())
    fields: Tree = {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": now, **maps}
    return {**fields, "namespace": namespace} if namespace else fields


def _policy_metadata(name: str) -> Tree:
    return _metadata(name, labels={DEFAULTS_LABEL: "rbac-defaults"}, annotations={AUTOUPDATE: "true"})


def _cluster_role(name: str, rules: tuple[RuleTree, ...]) -> Tree:
    """Return a new ClusterRole."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": _policy_metadata(name),
        "rules": [dict(row) for row in rules],
    }


def _cluster_binding(binding: BootstrapBinding) -> Tree:
    """Return a new ClusterRoleBinding."""
    subjects: list[Tree] = [{"kind": "User", "apiGroup": RBAC, "name": name} for name in binding.users]
    subjects += [{"kind": "Group", "apiGroup": RBAC, "name": name} for name in binding.groups]
    subjects += [{"kind": "ServiceAccount", "namespace": space, "name": name} for space, name in binding.accounts]
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _policy_metadata(binding.name),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": binding.role},
        "subjects": subjects,
    }


def _priority_class(name: str, value: int, text: str) -> Tree:
    """Return a new PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {**_metadata(name), "generation": 1},
        "value": value,
        "description": text,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _repaired(found: Wire | None, tree: Tree) -> Tree | None:
    """Return the object to write: `tree` if none exists, else the existing one with missing rows.

    None if nothing is missing, or if an annotation of the existing object forbids updates.
    """
    if found is None:
        return tree
    current: Tree = msgspec.to_builtins(found)
    if current["metadata"].get("annotations", {}).get(AUTOUPDATE) == "false":
        return None
    changed = False
    for field in ("rules", "subjects"):
        missing = [row for row in tree.get(field) or () if not _covered(row, current.get(field) or [])]
        if missing:
            current[field] = [*(current.get(field) or ()), *missing]
            changed = True
    return current if changed else None


def _moved(found: Service | None, tree: Tree) -> Tree | None:
    """Return the Service to write: `tree` if none exists, else the existing one with the new address.

    None if unchanged.
    """
    if found is None:
        return tree
    if found.spec == msgspec.convert(tree["spec"], ServiceSpec):
        return None
    return {**msgspec.to_builtins(found), "spec": tree["spec"]}


def _covered(row: Tree, rows: list[Tree]) -> bool:
    """Return whether one of `rows` contains at least the values of `row`."""
    return any(
        set(row) == set(other)
        and all(
            set(value) <= set(other[key]) if isinstance(value, list) else value == other[key]
            for key, value in row.items()
        )
        for other in rows
    )
