"""Workload: groups of pods that belong together, as templates of PodGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.conversion import WorkloadLookup
from dray.api.errors import invalid, required
from dray.api.group_versions import ONLY_STORED, group_guards, policy_from_stored, policy_to_stored
from dray.api.kind import GROUP_VERSIONS, KindRules, Resource
from dray.api.kinds.pod_group import claims_count
from dray.api.paths import SPEC, Path
from dray.api.rules import Errors
from dray.api.trees import lend, tree_of
from dray.api.types import scheduling
from dray.api.wire import Tree, Wire

if TYPE_CHECKING:
    from dray.api.validation.context import Context


TREE_DEPTH_MAX = 4


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
    rules=KindRules("workload.create_workload", ""),
    error_names={"v1alpha1": ((r"\bschedulingPolicy", r"policy"),)},
    guards=group_guards("spec.podGroupTemplates[]"),
    to_stored={"v1alpha1": _to_stored},
    from_stored={"v1alpha1": _from_stored},
)


def create_workload(workload: scheduling.Workload, context: Context) -> Errors:
    """Yield errors in a new Workload: too many claims of a group, or too deeply nested groups."""
    spec = workload.spec
    for index, template in enumerate(spec.podGroupTemplates or ()):
        path = SPEC / "podGroupTemplates" / index / "resourceClaims"
        yield from claims_count(template.resourceClaims, path, context)
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
            yield from claims_count(template.resourceClaims, claims, context)
        nested = here / "compositePodGroupTemplates"
        yield from _composites(item.compositePodGroupTemplates, nested, depth + 1, context)
