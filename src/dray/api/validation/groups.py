"""Validation of scheduling.k8s.io: PriorityClass, Workload and PodGroup."""

from __future__ import annotations

from dray.api import names
from dray.api.constraints import checked
from dray.api.errors import forbidden, invalid, required, too_many
from dray.api.paths import METADATA, SPEC, STATUS, Path
from dray.api.types import scheduling
from dray.api.validation.context import Context
from dray.api.validation.lists import (
    Errors,
    named,
)

TREE_DEPTH_MAX = 4
GROUP_CLAIMS_MAX = 4
HIGHEST_PRIORITY = 1_000_000_000
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


# PriorityClass


def priority(class_: scheduling.PriorityClass, _: Path | None) -> Errors:
    """Yield errors if the name or value of a PriorityClass is reserved for the system."""
    name, value = class_.metadata.name, class_.value
    if name.startswith("system-"):
        if _SYSTEM_CLASSES.get(name) != value or class_.globalDefault:
            reason = f"{name} is not a known system priority class"
            if name in _SYSTEM_CLASSES:
                wrong = f"value of {name} PriorityClass must be {_SYSTEM_CLASSES[name]}"
                reason = (
                    wrong if _SYSTEM_CLASSES[name] != value else f"globalDefault of {name} PriorityClass must be false"
                )
            text = "priority class names with 'system-' prefix are reserved for system use only. error: "
            yield forbidden(METADATA / "name", text + reason)
    elif value > HIGHEST_PRIORITY:
        yield forbidden(Path("value"), f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}")


# Workload


def create_workload(workload: scheduling.Workload, context: Context) -> Errors:
    """Yield errors in a new Workload: too many claims of a group, or too deeply nested groups."""
    spec = workload.spec
    for index, template in enumerate(spec.podGroupTemplates or ()):
        path = SPEC / "podGroupTemplates" / index / "resourceClaims"
        yield from _claims_count(template.resourceClaims, path, context)
    yield from _composites(spec.compositePodGroupTemplates, SPEC / "compositePodGroupTemplates", 1, context)


def _composites(
    items: tuple[scheduling.CompositePodGroupTemplate, ...], path: Path, depth: int, context: Context
) -> Errors:
    if items and depth > TREE_DEPTH_MAX:
        yield invalid(path, depth, f"the tree of templates must not be deeper than {TREE_DEPTH_MAX}")
        return
    for index, item in enumerate(items):
        here = path / index
        if not item.podGroupTemplates and not item.compositePodGroupTemplates:
            yield required(here, "must specify at least one of: `podGroupTemplates`, `compositePodGroupTemplates`")
        for number, template in enumerate(item.podGroupTemplates):
            claims = here / "podGroupTemplates" / number / "resourceClaims"
            yield from _claims_count(template.resourceClaims, claims, context)
        nested = here / "compositePodGroupTemplates"
        yield from _composites(item.compositePodGroupTemplates, nested, depth + 1, context)


# PodGroup


def create_group(group: scheduling.PodGroup, context: Context) -> Errors:
    """Yield errors in a new PodGroup: an incomplete workloadRef, or too many claims."""
    reference = group.spec.workloadRef
    if reference is not None and context.version != "v1alpha1":  # in v1alpha1, either name can be omitted
        for field in ("workloadName", "templateName"):
            if not getattr(reference, field):
                yield required(SPEC / "workloadRef" / field)
    yield from _claims_count(group.spec.resourceClaims, SPEC / "resourceClaims", context)


def update_group_status(group: scheduling.PodGroup, old: scheduling.PodGroup, context: Context) -> Errors:
    """Yield errors in the status of a PodGroup, including the names of its claims."""
    yield from checked("io.k8s.api.scheduling.v1beta1.PodGroupStatus", group.status, STATUS)
    statuses, path = group.status.resourceClaimStatuses, STATUS / "resourceClaimStatuses"
    known = {claim.name for claim in group.spec.resourceClaims}
    # A v1alpha1 group may have more claims, and controllers write its status as v1beta1.
    limit = max(_claims_limit(context), len(known))
    if limit and len(statuses) > limit:
        yield too_many(path, len(statuses), limit)
        return
    for index, status in enumerate(statuses):
        yield from named(status.name, path / index / "name", names.label)
        if status.name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(path / index / "name", status.name, text)


def _claims_limit(context: Context) -> int:
    """Return the maximum number of claims; 0 for no limit in v1alpha1, which has the rules of pods."""
    return 0 if context.version == "v1alpha1" else GROUP_CLAIMS_MAX


def _claims_count(items: tuple[scheduling.PodGroupResourceClaim, ...], path: Path, context: Context) -> Errors:
    limit = _claims_limit(context)
    if limit and len(items) > limit:
        yield too_many(path, len(items), limit)
