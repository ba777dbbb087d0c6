"""Job: runs pods until enough of them have succeeded."""

from __future__ import annotations

from dray.api.cells import duration, seconds
from dray.api.columns import AGE, NAME, TableColumn, text
from dray.api.errors import duplicate, invalid, required, too_many, unsupported, wrong
from dray.api.kind import ALL, STATUS, Resource
from dray.api.paths import Path
from dray.api.podspecs import template_defaults
from dray.api.rules import Errors, checked, each, unchanged
from dray.api.templates import TEMPLATE_COLUMNS, pod_guards, template_warnings
from dray.api.types import batch
from dray.api.wire import Tree
from dray.api.written import as_go

_MOST_INDEXED = 100_000
_MOST_OF_MANY = 10_000  # maximum parallelism with more than _MOST_INDEXED completions and a backoff limit per index
_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_RULES_MAX = 20
_PATTERNS_MAX = 20
_EXIT_CODES_MAX = 255
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")


_STATES = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _state(job: batch.Job) -> str:
    held = {c.type for c in job.status.conditions if c.status == "True"}
    for state in _STATES:
        if state == "Suspended" and job.metadata.deletionTimestamp:
            return "Terminating"
        if state in held:
            return state
    return "Running"


def _completions(job: batch.Job) -> str:
    done, parallelism = job.status.succeeded, job.spec.parallelism or 0
    if job.spec.completions is not None:
        return f"{done}/{job.spec.completions}"
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(job: batch.Job, now: float) -> str:
    status = job.status
    if not status.startTime:
        return ""
    end = seconds(status.completionTime) if status.completionTime else now
    return duration(end - seconds(status.startTime))


_MOST_RETRIES = 2**31 - 1
_UID = "batch.kubernetes.io/controller-uid"
_NAME = "batch.kubernetes.io/job-name"


def _defaults(tree: Tree) -> None:
    spec = tree["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MOST_RETRIES if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    template_defaults(spec)


def _select_own_pods(tree: Tree) -> None:
    """Set the selector and labels so that the Job selects pods by its own UID, unless manualSelector is set."""
    spec, metadata = tree.setdefault("spec", {}), tree.get("metadata") or {}
    if spec.get("manualSelector"):
        return
    name, uid = metadata.get("name", ""), metadata.get("uid", "")
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    own = {_UID: uid, _NAME: name, "controller-uid": uid, "job-name": name}
    template["labels"] = {**(template.get("labels") or {}), **own}
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _UID: uid}
    tree["metadata"]["labels"] = metadata.get("labels") or dict(template["labels"])


KIND = Resource(
    batch.Job,
    categories=ALL,
    subresources=STATUS,
    columns=(
        NAME,
        text("Status", _state),
        text("Completions", _completions),
        TableColumn("Duration", _duration),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    generation=("spec",),
    status_writes_metadata=True,
    defaults={
        "spec.completionMode": "NonIndexed",
        "spec.suspend": False,
        "spec.manualSelector": False,
        "spec.podFailurePolicy.rules[].onPodConditions[].status": "True",
    },
    more_defaults=_defaults,
    warnings=template_warnings("spec.template"),
    guards={**pod_guards("spec.template.spec"), "WorkloadWithJob": ("spec.scheduling",)},
    on_create=_select_own_pods,
    selectable={"status.successful": lambda job: str(job.status.succeeded)},
    not_selectable='field label "{field}" not supported for Job',
    keeps_dependents=True,
)


def same_job(job: batch.Job, old: batch.Job, _: Path | None) -> Errors:
    """Yield errors if an update changes immutable fields of a Job.

    The template of a suspended Job that has not started may change. An indexed Job may change completions if they
    equal parallelism.
    """
    spec, before, path = job.spec, old.spec, Path("spec")
    if spec.completionMode != "Indexed" or spec.completions != spec.parallelism:
        yield from unchanged(spec.completions, before.completions, path / "completions", spec.completions)
    yield from unchanged(spec.selector, before.selector, path / "selector", spec.selector)
    suspended = bool(before.suspend) and old.status.startTime is None
    if not suspended:  # the template of a suspended Job that has not started may change
        yield from unchanged(spec.template, before.template, path / "template", spec.template)
    for field in _FIXED:
        yield from unchanged(getattr(spec, field), getattr(before, field), path / field, as_go(getattr(spec, field)))
    yield from unchanged(_is_gang(spec), _is_gang(before), path / "scheduling" / "schedulingPolicy")


def _is_gang(spec: batch.JobSpec) -> bool:
    policy = spec.scheduling.schedulingPolicy if spec.scheduling is not None else None
    return policy is not None and policy.gang is not None


def gang_size(spec: batch.JobSpec, path: Path) -> Errors:
    """Yield an error if the gang of a Job needs more pods than its parallelism; nothing if one of them is not set."""
    policy = spec.scheduling.schedulingPolicy if spec.scheduling is not None else None
    size = policy.gang.minCount if policy is not None and policy.gang is not None else None
    if size is not None and spec.parallelism is not None and size > spec.parallelism:
        here = path / "scheduling" / "schedulingPolicy" / "gang" / "minCount"
        yield invalid(here, size, f"must be less than or equal to parallelism ({spec.parallelism})")


def indexed_parallelism(spec: batch.JobSpec, path: Path) -> Errors:
    """Yield errors if the parallelism of an indexed Job is too high.

    The limit is lower if there are many completions with a backoff limit per index.
    """
    path /= "parallelism"
    parallelism = spec.parallelism or 0
    if parallelism > _MOST_INDEXED:
        yield invalid(
            path, parallelism, f"must be less than or equal to {_MOST_INDEXED} when completionMode is Indexed"
        )
    many = (spec.completions or 0) > _MOST_INDEXED and spec.backoffLimitPerIndex is not None
    if many and parallelism > _MOST_OF_MANY:
        text = f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MOST_INDEXED}"
        yield invalid(path, parallelism, f"{text} and used with backoff limit per index")


def failure_policy(spec: batch.JobSpec, path: Path) -> Errors:
    """Yield errors in the pod failure policy of a Job."""
    assert spec.podFailurePolicy is not None  # only called if the field is set
    path /= "podFailurePolicy"
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
        yield from each(patterns, here / "onPodConditions", _pattern)
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


def _pattern(item: batch.PodFailurePolicyOnPodConditionsPattern, path: Path) -> Errors:
    yield from checked("io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern", item, path)
