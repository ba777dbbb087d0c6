"""PodGroup: pods that are scheduled together."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, text
from dray.api.conversion import WorkloadLookup
from dray.api.group_versions import ONLY_STORED, group_guards, policy_from_stored, policy_to_stored
from dray.api.kind import GROUP_VERSIONS, STATUS, KindRules, Resource
from dray.api.podclaims import GROUP_FINALIZER
from dray.api.trees import add_finalizer, keep_priority, lend, tree_of
from dray.api.types import scheduling
from dray.api.wire import Tree, Wire


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
    rules=KindRules("groups.create_group", "", subresources={"status": "groups.update_group_status"}),
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
