"""Functions for PodGroups and the group templates of Workloads: feature gates, and conversion of the v1alpha1 policy."""

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
_DEEPEST = 4  # maximum nesting of composite groups that validation allows


def group_guards(path: str) -> dict[str, tuple[str, ...]]:
    """Return the paths of the fields of a group, or of group templates, that each feature gate guards.

    The result is by name of the gate. `path` is the path of the group's spec, or ends in `[]` for templates.
    """
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
    """Rename the v1alpha1 field `policy` to schedulingPolicy, in place; `absent` is its value if missing or empty."""
    holder["schedulingPolicy"] = holder.pop("policy", None) or absent


def policy_from_stored(holder: Tree) -> None:
    """Rename schedulingPolicy to `policy` as in v1alpha1, and remove fields that v1alpha1 lacks."""
    holder["policy"] = holder.pop("schedulingPolicy", None) or {}
    for name in ONLY_STORED:
        holder.pop(name, None)
