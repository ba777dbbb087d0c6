"""Defaults of kinds that make or group pods."""

from __future__ import annotations

from typing import Any

from dray.api.defaults.pods import template

Tree = dict[str, Any]

_MOST_RETRIES = 2**31 - 1


def deployment(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        update = strategy.setdefault("rollingUpdate", {})
        update.setdefault("maxUnavailable", "25%")
        update.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    template(spec)


def replica_set(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template(spec)


def replication_controller(tree: Tree) -> None:
    """What names no labels or selector has those of its pods."""
    replica_set(tree)
    spec = tree["spec"]
    if labels := ((spec.get("template") or {}).get("metadata") or {}).get("labels"):
        for holder, name in ((spec, "selector"), (tree.setdefault("metadata", {}), "labels")):
            holder[name] = holder.get(name) or dict(labels)


def daemon_set(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        update = strategy.setdefault("rollingUpdate", {})
        update.setdefault("maxUnavailable", 1)
        update.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    template(spec)


def job(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MOST_RETRIES if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"
    template(spec)


def pod_group(tree: Tree) -> None:
    tree.setdefault("spec", {}).setdefault("disruptionMode", {"single": {}})
