"""Defaults of what describes traffic: endpoints, network policies, classes of ingress."""

from __future__ import annotations

from dray.api.defaults.pods import fill
from dray.api.wire import Tree


def endpoints(tree: Tree) -> None:
    for subset in tree.get("subsets") or ():
        for port in subset.get("ports") or ():
            fill(port, "protocol", "TCP")


def endpoint_slice(tree: Tree) -> None:
    for port in tree.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def network_policy(tree: Tree) -> None:
    """A policy is about ingress, and about egress too where it says something about that."""
    spec = tree.setdefault("spec", {})
    fill(spec, "policyTypes", ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


def ingress_class(tree: Tree) -> None:
    parameters = tree.setdefault("spec", {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")
