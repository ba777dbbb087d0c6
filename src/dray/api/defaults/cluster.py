"""Defaults of the kinds that a cluster is described with: namespaces, services, secrets, bindings, webhooks."""

from __future__ import annotations

import base64

from dray.api.wire import Tree

_RBAC_GROUP = "rbac.authorization.k8s.io"
_AFFINITY_SECONDS = 10800


def namespace(tree: Tree) -> None:
    name = tree.get("metadata", {}).get("name")
    if name:
        labels = tree["metadata"].get("labels") or {}
        tree["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": name}


def node(tree: Tree) -> None:
    spec = tree.get("spec") or {}
    if spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    elif spec.get("podCIDR"):
        spec["podCIDRs"] = [spec["podCIDR"]]
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


def mutating_webhook_configuration(tree: Tree) -> None:
    webhook_configuration(tree)
    for webhook in tree.get("webhooks") or ():
        webhook.setdefault("reinvocationPolicy", "Never")


def mutating_policy(tree: Tree) -> None:
    admission_policy(tree)
    tree["spec"].setdefault("reinvocationPolicy", "Never")


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


def limit_range(tree: Tree) -> None:
    """A container may have what the range allows at most, and asks for what it may have."""
    for item in tree.setdefault("spec", {}).get("limits") or ():
        if item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            item.update({name: value for name, value in (("default", limits), ("defaultRequest", requests)) if value})


def flow_schema(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


_QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def priority_level(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    if spec.get("type") == "Exempt":
        exempt = spec.setdefault("exempt", {})
        exempt.setdefault("nominalConcurrencyShares", 0)
        exempt.setdefault("lendablePercent", 0)
    limited = spec.get("limited")
    if limited is not None:
        limited.setdefault("nominalConcurrencyShares", 30)
        limited.setdefault("lendablePercent", 0)
        queuing = limited.setdefault("limitResponse", {}).get("queuing")
        if queuing is not None:
            for name, value in _QUEUING.items():
                queuing[name] = queuing.get(name) or value


def api_service(tree: Tree) -> None:
    service_reference = tree.setdefault("spec", {}).get("service")
    if service_reference is not None:
        service_reference.setdefault("port", 443)


def definition(tree: Tree) -> None:
    """What a CustomResourceDefinition leaves to the server: further names, conversion, ports of webhooks."""
    spec = tree.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names["singular"] = names.get("singular") or kind.lower()
        names["listKind"] = names.get("listKind") or f"{kind}List"
    conversion = spec.setdefault("conversion", {})
    conversion["strategy"] = conversion.get("strategy") or "None"
    client = (conversion.get("webhook") or {}).get("clientConfig") or {}
    if client.get("service") is not None:
        client["service"].setdefault("port", 443)
