"""Defaults of kinds that make, group or count pods."""

from __future__ import annotations

from dray.api.defaults.pods import fill, template
from dray.api.defaults.storage import claim
from dray.api.wire import Tree

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
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"
    template(spec)


def stateful_set(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    fill(spec, "podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    fill(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        update = strategy.setdefault("rollingUpdate", {})
        update.setdefault("partition", 0)
        update.setdefault("maxUnavailable", 1)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for occasion in ("whenDeleted", "whenScaled"):
        fill(retention, occasion, "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    for volume_claim in spec.get("volumeClaimTemplates") or ():
        claim(volume_claim)
    template(spec)


def cron_job(tree: Tree) -> None:
    """The jobs to come get the defaults of jobs when they are made, their pod template has them now."""
    spec = tree.setdefault("spec", {})
    fill(spec, "concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))


_CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
_DOUBLE = {"type": "Percent", "value": 100, "periodSeconds": 15}
_FOUR_MORE = {"type": "Pods", "value": 4, "periodSeconds": 15}


def autoscaler(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [_CPU]
    behavior = spec.get("behavior")
    if behavior is not None:
        behavior.setdefault("scaleUp", {}).setdefault("stabilizationWindowSeconds", 0)
        for direction, policies in (("scaleUp", [_FOUR_MORE, _DOUBLE]), ("scaleDown", [_DOUBLE])):
            rules = behavior.setdefault(direction, {})
            rules.setdefault("selectPolicy", "Max")
            fill(rules, "policies", policies)


def pod_group(tree: Tree) -> None:
    tree.setdefault("spec", {}).setdefault("disruptionMode", {"single": {}})
