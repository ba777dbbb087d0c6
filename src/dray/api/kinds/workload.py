"""Workload: groups of pods that belong together, as templates of PodGroups."""

from __future__ import annotations

from dray.api.conversion import WorkloadLookup
from dray.api.group_versions import ONLY_STORED, group_guards, policy_from_stored, policy_to_stored
from dray.api.kind import GROUP_VERSIONS, KindRules, Resource
from dray.api.trees import lend, tree_of
from dray.api.types import scheduling
from dray.api.wire import Tree, Wire


def _to_stored(tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    spec, old_spec = tree.get("spec", {}), tree_of(old).get("spec", {})
    before = {template.get("name"): template for template in old_spec.get("podGroupTemplates") or ()}
    for template in spec.get("podGroupTemplates") or ():
        policy_to_stored(template, {"basic": {}})
        lend(template, before.get(template.get("name"), {}), ONLY_STORED)
    lend(spec, old_spec, ("compositePodGroupTemplates",))


def _from_stored(tree: Tree) -> None:
    spec = tree.get("spec", {})
    for template in spec.get("podGroupTemplates") or ():
        policy_from_stored(template)
    spec.pop("compositePodGroupTemplates", None)


KIND = Resource(
    scheduling.Workload,
    versions=GROUP_VERSIONS,
    gate="GenericWorkload",
    conditional=("v1beta1", "v1alpha3"),
    rules=KindRules("groups.create_workload", ""),
    error_names={"v1alpha1": ((r"\bschedulingPolicy", r"policy"),)},
    guards=group_guards("spec.podGroupTemplates[]"),
    to_stored={"v1alpha1": _to_stored},
    from_stored={"v1alpha1": _from_stored},
)
