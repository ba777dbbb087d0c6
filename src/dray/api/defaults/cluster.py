"""Defaults of the kinds that a cluster is described with: namespaces, services, secrets, bindings, webhooks."""

from __future__ import annotations

import base64
from typing import Any

Tree = dict[str, Any]

_RBAC_GROUP = "rbac.authorization.k8s.io"
_AFFINITY_SECONDS = 10800


def namespace(tree: Tree) -> None:
    name = tree.get("metadata", {}).get("name")
    if name:
        labels = tree["metadata"].get("labels") or {}
        tree["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": name}


def node(tree: Tree) -> None:
    status = tree.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def secret(tree: Tree) -> None:
    """`stringData` is only ever written: it becomes `data`."""
    tree["type"] = tree.get("type") or "Opaque"
    plain = tree.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        tree["data"] = {**(tree.get("data") or {}), **encoded}


def service(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    kind = spec["type"] = spec.get("type") or "ClusterIP"
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", _AFFINITY_SECONDS)
    for port in spec.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if kind in ("NodePort", "LoadBalancer"):
        spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def role_binding(tree: Tree) -> None:
    reference = tree.setdefault("roleRef", {})
    reference["apiGroup"] = reference.get("apiGroup") or _RBAC_GROUP
    for subject in tree.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _RBAC_GROUP


def priority_class(tree: Tree) -> None:
    tree.setdefault("preemptionPolicy", "PreemptLowerPriority")


def webhook_configuration(tree: Tree) -> None:
    for webhook in tree.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("timeoutSeconds", 10)
        _matching(webhook, "rules")
        service_ref = webhook.get("clientConfig", {}).get("service")
        if service_ref is not None:
            service_ref.setdefault("port", 443)


def admission_policy(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    if spec.get("matchConstraints") is not None:
        _matching(spec["matchConstraints"], "resourceRules", "excludeResourceRules")


def admission_policy_binding(tree: Tree) -> None:
    matching = tree.setdefault("spec", {}).get("matchResources")
    if matching is not None:
        _matching(matching, "resourceRules", "excludeResourceRules")


def _matching(holder: Tree, *rule_lists: str) -> None:
    holder.setdefault("matchPolicy", "Equivalent")
    holder.setdefault("namespaceSelector", {})
    holder.setdefault("objectSelector", {})
    for name in rule_lists:
        for rule in holder.get(name) or ():
            rule.setdefault("scope", "*")
