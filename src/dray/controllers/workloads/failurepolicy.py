"""Evaluates a Job's podFailurePolicy for a failed pod: the first matching rule decides. Pure."""

from __future__ import annotations

from typing import NamedTuple

from dray.api.types.batch import Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule
from dray.api.types.core import Pod

FAIL_JOB = "FailJob"
FAIL_INDEX = "FailIndex"
IGNORE = "Ignore"
COUNT = "Count"


class FailureJudgement(NamedTuple):
    """The action that follows from a pod failure, and why."""

    action: str
    why: str = ""


def judge(job: Job, pod: Pod) -> FailureJudgement:
    """Return the action for a failed pod. Without a policy or a matching rule the failure counts."""
    rules = job.spec.podFailurePolicy.rules if job.spec.podFailurePolicy is not None else ()
    for number, rule in enumerate(rules):
        found = _matched(rule, pod)
        if found:
            return FailureJudgement(rule.action, f"{found} matching {rule.action} rule at index {number}")
    return FailureJudgement(COUNT)


def _matched(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Return a text saying why the pod matches a rule, or "" if it does not.

    The rule matches if a container's exit code or one of the pod's conditions matches.
    """
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.onExitCodes is not None:
        for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
            ended = status.state.terminated
            if ended is not None and _covers(rule.onExitCodes, status.name, ended.exitCode):
                return f"Container {status.name} for pod {name} failed with exit code {ended.exitCode}"
    for pattern in rule.onPodConditions:
        if any((c.type, c.status) == (pattern.type, pattern.status) for c in pod.status.conditions):
            return f"Pod {name} has condition {pattern.type}"
    return ""


def _covers(requirement: PodFailurePolicyOnExitCodesRequirement, container: str, code: int) -> bool:
    if code == 0 or requirement.containerName not in (None, container):
        return False
    return (code in requirement.values) is (requirement.operator == "In")
