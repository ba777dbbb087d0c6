"""PodGroup: pods that are scheduled together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api import names, paths
from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, text
from dray.api.conversion import WorkloadLookup
from dray.api.errors import invalid, required, too_many
from dray.api.group_versions import ONLY_STORED, group_guards, policy_from_stored, policy_to_stored
from dray.api.kind import GROUP_VERSIONS, STATUS, KindRules, Resource
from dray.api.paths import SPEC, Path
from dray.api.podclaims import GROUP_FINALIZER
from dray.api.rules import Errors, checked, named
from dray.api.trees import add_finalizer, keep_priority, lend, tree_of
from dray.api.types import scheduling
from dray.api.wire import Tree, Wire

if TYPE_CHECKING:
    from dray.api.validation.context import Context


GROUP_CLAIMS_MAX = 4


def _policy(group: scheduling.PodGroup) -> str:
    policy = group.spec.schedulingPolicy
    return "Gang" if policy.gang is not None else "Basic" if policy.basic is not None else ""


def _state(group: scheduling.PodGroup) -> str:
    for condition in group.status.conditions:
        if condition.type == "PodGroupInitiallyScheduled":
            return "Scheduled" if condition.status == "True" else condition.reason or "Pending"
    return "Pending"


def _create(tree: Tree) -> None:
    add_finalizer(tree, GROUP_FINALIZER)
    spec = tree.setdefault("spec", {})
    if not spec.get("priorityClassName"):
        spec.setdefault("priority", 0)


def _keep_priority(tree: Tree, old: scheduling.PodGroup) -> None:
    keep_priority(tree.setdefault("spec", {}), old.spec)


def _to_stored(tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    spec, before = tree.get("spec", {}), tree_of(old).get("spec", {})
    workload = (spec.pop("workloadRef", None) or {}).get("name", "")
    template = (spec.pop("podGroupTemplateRef", None) or {}).get("name", "")
    if workload or template:
        spec["workloadRef"] = {"workloadName": workload, "templateName": template}
    inherited = before.get("schedulingPolicy") or _template_policy(workloads, workload, template)
    policy_to_stored(spec, inherited or {"basic": {}})
    lend(spec, before, ONLY_STORED)


def _template_policy(workloads: WorkloadLookup | None, workload: str, template: str) -> Tree | None:
    found = workloads(workload) if workloads and workload else None
    for candidate in (found.spec.podGroupTemplates if found else None) or ():
        if candidate.name == template:
            return tree_of(candidate.schedulingPolicy)
    return None


def _from_stored(tree: Tree) -> None:
    spec = tree.get("spec", {})
    reference = spec.pop("workloadRef", None) or {}
    for name, stored in (("workloadRef", "workloadName"), ("podGroupTemplateRef", "templateName")):
        if reference.get(stored):
            spec[name] = {"name": reference[stored]}
    policy_from_stored(spec)


KIND = Resource(
    scheduling.PodGroup,
    versions=GROUP_VERSIONS,
    subresources=STATUS,
    gate="GenericWorkload",
    columns=(
        NAME,
        text("Policy", _policy, NONE),
        text("Workload", lambda group: group.spec.workloadRef and group.spec.workloadRef.workloadName, NONE),
        text("Status", _state),
        AGE,
    ),
    conditional=("v1beta1", "v1alpha3"),
    rules=KindRules("pod_group.create_group", "", subresources={"status": "pod_group.update_group_status"}),
    error_names={
        "v1alpha1": (
            (r"\bspec\.schedulingPolicy", r"spec.policy"),
            (r"\bspec\.workloadRef\.workloadName", r"spec.workloadRef.name"),
            (r"\bspec\.workloadRef\.templateName", r"spec.podGroupTemplateRef.name"),
        )
    },
    defaults={"spec.disruptionMode": {"single": {}}},
    guards=group_guards("spec"),
    on_create=_create,
    on_update={"": _keep_priority},
    to_stored={"v1alpha1": _to_stored},
    from_stored={"v1alpha1": _from_stored},
)


def create_group(group: scheduling.PodGroup, context: Context) -> Errors:
    """Yield errors in a new PodGroup: an incomplete workloadRef, or too many claims."""
    reference = group.spec.workloadRef
    if reference is not None and context.version != "v1alpha1":  # in v1alpha1, either name can be omitted
        for field in ("workloadName", "templateName"):
            if not getattr(reference, field):
                yield required(SPEC / "workloadRef" / field)
    yield from claims_count(group.spec.resourceClaims, SPEC / "resourceClaims", context)


def update_group_status(group: scheduling.PodGroup, old: scheduling.PodGroup, context: Context) -> Errors:
    """Yield errors in the status of a PodGroup, including the names of its claims."""
    yield from checked("io.k8s.api.scheduling.v1beta1.PodGroupStatus", group.status, paths.STATUS)
    statuses, path = group.status.resourceClaimStatuses, paths.STATUS / "resourceClaimStatuses"
    known = {claim.name for claim in group.spec.resourceClaims}
    # A v1alpha1 group may have more claims, and controllers write its status as v1beta1.
    limit = max(claims_limit(context), len(known))
    if limit and len(statuses) > limit:
        yield too_many(path, len(statuses), limit)
        return
    for index, status in enumerate(statuses):
        yield from named(status.name, path / index / "name", names.label)
        if status.name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(path / index / "name", status.name, text)


def claims_limit(context: Context) -> int:
    """Return the maximum number of claims of a group.

    Returns 0, for no limit, in v1alpha1, which has the rules of pods.
    """
    return 0 if context.version == "v1alpha1" else GROUP_CLAIMS_MAX


def claims_count(items: tuple[scheduling.PodGroupResourceClaim, ...], path: Path, context: Context) -> Errors:
    limit = claims_limit(context)
    if limit and len(items) > limit:
        yield too_many(path, len(items), limit)
