"""What PodGroups and the templates of a Workload have in common: guarded fields, and the policy of v1alpha1."""

from __future__ import annotations

from dray.api.wire import Tree

ONLY_STORED = (
    "disruptionMode",
    "parentCompositePodGroupName",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "schedulingConstraints",
)
_DEEPEST = 4  # composite groups in one another; validation allows no more


def group_guards(path: str) -> dict[str, tuple[str, ...]]:
    """Returns what feature gates guard in a group or in templates of groups at a path."""
    nested = [
        "spec." + "compositePodGroupTemplates[]." * depth + "podGroupTemplates[]" for depth in range(1, _DEEPEST + 1)
    ]
    places = [path, *nested] if path.endswith("[]") else [path]
    claims = [f"{place}.resourceClaims" for place in places]
    return {
        "WorkloadPodGroupResourceClaimTemplate": (*claims, "status.resourceClaimStatuses"),
        "TopologyAwareWorkloadScheduling": tuple(f"{place}.schedulingConstraints" for place in places),
    }


def policy_to_stored(holder: Tree, absent: Tree) -> None:
    """Give the policy of v1alpha1 its stored name."""
    holder["schedulingPolicy"] = holder.pop("policy", None) or absent


def policy_from_stored(holder: Tree) -> None:
    """Show a policy as v1alpha1 does, without what that version has no words for."""
    holder["policy"] = holder.pop("schedulingPolicy", None) or {}
    for name in ONLY_STORED:
        holder.pop(name, None)
