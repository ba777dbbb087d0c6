"""scheduling.k8s.io: PriorityClass, Workload, PodGroup."""

from __future__ import annotations

from dray.api import names
from dray.api.errors import forbidden, invalid, required, too_many, unsupported
from dray.api.types import scheduling
from dray.api.validation.conditions import conditions
from dray.api.validation.context import Context
from dray.api.validation.lists import (
    Errors,
    at_least,
    at_most,
    bounded,
    kept_items,
    named,
    one_member,
    required_name,
    unchanged,
    unique,
)
from dray.api.validation.paths import METADATA, SPEC, STATUS, Path

TEMPLATES_MAX = 8
TREE_DEPTH_MAX = 4
GROUP_CLAIMS_MAX = 4
HIGHEST_PRIORITY = 1_000_000_000
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_GROUP_FIXED = (
    "parentCompositePodGroupName",
    "workloadRef",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)
_TEMPLATE_FIXED = (
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)


# PriorityClass


def create_priority_class(class_: scheduling.PriorityClass, context: Context) -> Errors:
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
    yield from preemption_policy(class_.preemptionPolicy, Path("preemptionPolicy"))


def update_priority_class(class_: scheduling.PriorityClass, old: scheduling.PriorityClass, context: Context) -> Errors:
    if class_.value != old.value:
        yield forbidden(Path("value"), "may not be changed in an update.")
    yield from unchanged(
        class_.preemptionPolicy, old.preemptionPolicy, Path("preemptionPolicy"), class_.preemptionPolicy
    )


def preemption_policy(policy: str | None, path: Path) -> Errors:
    if policy == "":
        yield required(path)
    elif policy is not None and policy not in PREEMPTION_POLICIES:
        yield unsupported(path, policy, PREEMPTION_POLICIES)


# Workload


def create_workload(workload: scheduling.Workload, context: Context) -> Errors:
    spec = workload.spec
    yield from _controller(spec.controllerRef, SPEC / "controllerRef")
    yield from one_member(
        {
            "podGroupTemplates": spec.podGroupTemplates or (),
            "compositePodGroupTemplates": spec.compositePodGroupTemplates,
        },
        SPEC,
    )
    yield from _templates(spec.podGroupTemplates or (), SPEC / "podGroupTemplates", context)
    yield from _composites(spec.compositePodGroupTemplates, SPEC / "compositePodGroupTemplates", 1, context)


def update_workload(workload: scheduling.Workload, old: scheduling.Workload, context: Context) -> Errors:
    """Templates stay as they are, but for the size of a gang."""
    spec, before = workload.spec, old.spec
    yield from unchanged(spec.controllerRef, before.controllerRef, SPEC / "controllerRef")
    yield from _templates_update(spec, before, SPEC)


_Templates = scheduling.WorkloadSpec | scheduling.CompositePodGroupTemplate  # what has templates, at any depth


def _templates_update(holder: _Templates, old: _Templates, path: Path) -> Errors:
    for name in ("podGroupTemplates", "compositePodGroupTemplates"):
        yield from kept_items(getattr(holder, name), getattr(old, name), path / name)
    known = {template.name: template for template in old.podGroupTemplates or ()}
    for index, template in enumerate(holder.podGroupTemplates or ()):
        if template.name in known:
            here = path / "podGroupTemplates" / index
            yield from _fixed(template, known[template.name], _TEMPLATE_FIXED, here)
            yield from _policy_update(template.schedulingPolicy, known[template.name].schedulingPolicy, here)
    composites = {composite.name: composite for composite in old.compositePodGroupTemplates}
    for index, composite in enumerate(holder.compositePodGroupTemplates):
        if composite.name in composites:
            here = path / "compositePodGroupTemplates" / index
            yield from _templates_update(composite, composites[composite.name], here)


def _controller(reference: scheduling.TypedLocalObjectReference | None, path: Path) -> Errors:
    if reference is None:
        return
    if reference.apiGroup:
        yield from named(reference.apiGroup, path / "apiGroup", names.subdomain)
    yield from required_name(reference.kind, path / "kind", names.path_segment)
    yield from required_name(reference.name, path / "name", names.path_segment)


def _templates(items: tuple[scheduling.PodGroupTemplate, ...], path: Path, context: Context) -> Errors:
    def template(item: scheduling.PodGroupTemplate, here: Path) -> Errors:
        yield from required_name(item.name, here / "name", names.label)
        yield from _policy(item.schedulingPolicy, here / "schedulingPolicy")
        yield from _claims(item.resourceClaims, here / "resourceClaims", context)
        yield from _common(item, here)

    yield from bounded(items, TEMPLATES_MAX, path, template, lambda item: item.name)


def _composites(
    items: tuple[scheduling.CompositePodGroupTemplate, ...], path: Path, depth: int, context: Context
) -> Errors:
    def composite(item: scheduling.CompositePodGroupTemplate, here: Path) -> Errors:
        yield from required_name(item.name, here / "name", names.label)
        policy = item.schedulingPolicy
        yield from one_member({"basic": policy.basic, "gang": policy.gang}, here / "schedulingPolicy")
        if not item.podGroupTemplates and not item.compositePodGroupTemplates:
            yield required(here, "must specify at least one of: `podGroupTemplates`, `compositePodGroupTemplates`")
        yield from _templates(item.podGroupTemplates, here / "podGroupTemplates", context)
        nested = here / "compositePodGroupTemplates"
        yield from _composites(item.compositePodGroupTemplates, nested, depth + 1, context)

    if items and depth > TREE_DEPTH_MAX:
        yield invalid(path, depth, f"the tree of templates must not be deeper than {TREE_DEPTH_MAX}")
        return
    yield from bounded(items, TEMPLATES_MAX, path, composite, lambda item: item.name)


# PodGroup


def create_group(group: scheduling.PodGroup, context: Context) -> Errors:
    spec = group.spec
    if spec.workloadRef is not None:
        yield from _workload_reference(spec.workloadRef, SPEC / "workloadRef", context)
    yield from _policy(spec.schedulingPolicy, SPEC / "schedulingPolicy")
    yield from _claims(spec.resourceClaims, SPEC / "resourceClaims", context)
    yield from _common(spec, SPEC)
    if spec.parentCompositePodGroupName is not None:
        path = SPEC / "parentCompositePodGroupName"
        yield from named(spec.parentCompositePodGroupName, path, names.subdomain)


def update_group(group: scheduling.PodGroup, old: scheduling.PodGroup, context: Context) -> Errors:
    yield from _fixed(group.spec, old.spec, _GROUP_FIXED, SPEC)
    yield from _policy_update(group.spec.schedulingPolicy, old.spec.schedulingPolicy, SPEC)


def update_group_status(group: scheduling.PodGroup, old: scheduling.PodGroup, context: Context) -> Errors:
    yield from conditions(group.status.conditions, STATUS / "conditions")
    statuses, path = group.status.resourceClaimStatuses, STATUS / "resourceClaimStatuses"
    known = {claim.name for claim in group.spec.resourceClaims}
    # A group of v1alpha1 may have more claims, and controllers write its status in v1beta1.
    limit = max(_claims_limit(context), len(known))
    if limit and len(statuses) > limit:
        yield too_many(path, len(statuses), limit)
        return
    for index, status in enumerate(statuses):
        yield from named(status.name, path / index / "name", names.label)
        if status.resourceClaimName is not None:
            yield from named(status.resourceClaimName, path / index / "resourceClaimName", names.subdomain)
        if status.name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(path / index / "name", status.name, text)
    yield from unique(statuses, path, lambda status: status.name)


def _workload_reference(reference: scheduling.WorkloadReference, path: Path, context: Context) -> Errors:
    """v1alpha1 refers to a workload and to a template separately; either may be left out there."""
    optional = context.version == "v1alpha1"
    if reference.workloadName or not optional:
        yield from required_name(reference.workloadName, path / "workloadName", names.subdomain)
    if reference.templateName or not optional:
        yield from required_name(reference.templateName, path / "templateName", names.label)


def _claims_limit(context: Context) -> int:
    """Pods have no limit of their own, and v1alpha1 promises the rules of pods."""
    return 0 if context.version == "v1alpha1" else GROUP_CLAIMS_MAX


def _claims(items: tuple[scheduling.PodGroupResourceClaim, ...], path: Path, context: Context) -> Errors:
    limit = _claims_limit(context) or len(items)

    def claim(item: scheduling.PodGroupResourceClaim, here: Path) -> Errors:
        yield from required_name(item.name, here / "name", names.label)
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            value = getattr(item, field)
            if value is not None:
                yield from named(value, here / field, names.subdomain)
        sources = {
            "resourceClaimName": item.resourceClaimName,
            "resourceClaimTemplateName": item.resourceClaimTemplateName,
        }
        yield from one_member(sources, here)

    yield from bounded(items, limit, path, claim, lambda item: item.name)


def _policy(policy: scheduling.PodGroupSchedulingPolicy, path: Path) -> Errors:
    yield from one_member({"basic": policy.basic, "gang": policy.gang}, path)
    if policy.gang is not None:
        yield from _min_count(policy.gang.minCount, path / "gang" / "minCount")


def _min_count(count: int, path: Path) -> Errors:
    if count == 0:
        yield required(path)
    else:
        yield from at_least(count, 1, path)


def _policy_update(
    policy: scheduling.PodGroupSchedulingPolicy, old: scheduling.PodGroupSchedulingPolicy, path: Path
) -> Errors:
    """A group keeps its policy; a gang may change its size."""
    path = path / "schedulingPolicy"
    yield from unchanged(policy.basic, old.basic, path / "basic")
    if policy.gang is not None and old.gang is None:
        yield invalid(path / "gang", None, "field cannot be set once created")
    elif policy.gang is None and old.gang is not None:
        yield invalid(path / "gang", None, "field cannot be cleared once set")
    if (policy.basic is None, policy.gang is None) != (old.basic is None, old.gang is None):
        yield from one_member({"basic": policy.basic, "gang": policy.gang}, path)
    if policy.gang is not None:
        yield from _min_count(policy.gang.minCount, path / "gang" / "minCount")


def _fixed(
    new: scheduling.PodGroupSpec | scheduling.PodGroupTemplate,
    old: scheduling.PodGroupSpec | scheduling.PodGroupTemplate,
    fields: tuple[str, ...],
    path: Path,
) -> Errors:
    for field in fields:
        yield from unchanged(getattr(new, field), getattr(old, field), path / field)


def _common(item: scheduling.PodGroupSpec | scheduling.PodGroupTemplate, path: Path) -> Errors:
    """What a group and a template say about disruption, priority and topology."""
    mode = item.disruptionMode
    if mode is not None:
        yield from one_member({"single": mode.single, "all": mode.all}, path / "disruptionMode")
    if item.priorityClassName:
        yield from named(item.priorityClassName, path / "priorityClassName", names.subdomain)
    yield from at_most(item.priority, HIGHEST_PRIORITY, path / "priority")
    yield from preemption_policy(item.preemptionPolicy, path / "preemptionPolicy")
    topology = item.schedulingConstraints.topology if item.schedulingConstraints else ()
    if len(topology) > 1:
        yield too_many(path / "schedulingConstraints" / "topology", len(topology), 1)
    for index, constraint in enumerate(topology[:1]):
        key_path = path / "schedulingConstraints" / "topology" / index / "key"
        yield from required_name(constraint.key, key_path, names.qualified_name)
