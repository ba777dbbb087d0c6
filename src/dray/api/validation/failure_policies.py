"""What a Job does about pods that failed: rules by exit code or by condition."""

from __future__ import annotations

from dray.api.constraints import checked
from dray.api.errors import duplicate, invalid, required, too_many, unsupported, wrong
from dray.api.paths import Path
from dray.api.types import batch
from dray.api.validation.lists import Errors, each

_RULES_MAX = 20
_PATTERNS_MAX = 20
_EXIT_CODES_MAX = 255
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")


def failure_policy(spec: batch.JobSpec, path: Path) -> Errors:
    """Judge the pod failure policy of a job."""
    assert spec.podFailurePolicy is not None
    rules = spec.podFailurePolicy.rules or ()
    if len(rules) > _RULES_MAX:
        yield too_many(path / "rules", len(rules), _RULES_MAX)
    pod = spec.template.spec
    containers = frozenset(container.name for container in (*pod.containers, *pod.initContainers))

    def rule(item: batch.PodFailurePolicyRule, here: Path) -> Errors:
        if item.action == "FailIndex":
            if spec.backoffLimitPerIndex is None:
                yield invalid(here / "action", item.action, "requires the backoffLimitPerIndex to be set")
        else:
            yield from _choice(item.action, _ACTIONS, here / "action")
        if item.onExitCodes is not None:
            yield from _exit_codes(item.onExitCodes, here / "onExitCodes", containers)
        patterns = item.onPodConditions
        if len(patterns) > _PATTERNS_MAX:
            yield too_many(here / "onPodConditions", len(patterns), _PATTERNS_MAX)
        yield from each(patterns, here / "onPodConditions", pattern)
        if item.onExitCodes is not None and patterns:
            yield wrong(here, "specifying both OnExitCodes and OnPodConditions is not supported")
        elif item.onExitCodes is None and not patterns:
            yield wrong(here, "specifying one of OnExitCodes and OnPodConditions is required")

    yield from each(rules, path / "rules", rule)


def _choice(value: str, options: tuple[str, ...], path: Path) -> Errors:
    if not value:
        listed = " ".join(f'"{option}"' for option in options)
        yield required(path, f"valid values: [{listed}]")
    elif value not in options:
        yield unsupported(path, value, options)


def _exit_codes(item: batch.PodFailurePolicyOnExitCodesRequirement, path: Path, containers: frozenset[str]) -> Errors:
    yield from _choice(item.operator, _OPERATORS, path / "operator")
    if item.containerName is not None and item.containerName not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        yield invalid(path / "containerName", item.containerName, text)
    values, here = item.values or (), path / "values"
    if not values:
        yield invalid(here, [], "at least one value is required")
    elif len(values) > _EXIT_CODES_MAX:
        yield too_many(here, len(values), _EXIT_CODES_MAX)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if value == 0 and item.operator == "In":
            yield invalid(here / index, value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(here / index, value)
        seen.add(value)
    if list(values) != sorted(values):
        yield invalid(here, list(values), "must be ordered")


def pattern(item: batch.PodFailurePolicyOnPodConditionsPattern, path: Path) -> Errors:
    yield from checked("io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern", item, path)
