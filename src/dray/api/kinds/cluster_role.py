"""ClusterRole: permissions for the whole cluster, or for the namespaces of RoleBindings that refer to it."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api import names
from dray.api.cells import UNKNOWN
from dray.api.columns import NAME, text
from dray.api.errors import forbidden, invalid, required
from dray.api.kind import KindRules, Resource
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import rbac

MOST_PERMISSIONS = 10_000  # maximum per role: verbs times groups times resources times names


KIND = Resource(
    rbac.ClusterRole,
    namespaced=False,
    columns=(NAME, text("Created At", "metadata.creationTimestamp", UNKNOWN)),
    rules=KindRules(name=names.path_segment, order=("metadata", "rules", "changes")),
    is_created_by_update=True,
)


def policy_rule(rule: rbac.PolicyRule, path: Path) -> Errors:
    """Yield errors if a role's rule lacks API groups or resources, or combines resources with nonResourceURLs."""
    if rule.nonResourceURLs:
        if rule.apiGroups or rule.resources or rule.resourceNames:
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(path / "nonResourceURLs", rule.nonResourceURLs, text)
        return
    if not rule.apiGroups:
        yield required(path / "apiGroups", "resource rules must supply at least one api group")
    if not rule.resources:
        yield required(path / "resources", "resource rules must supply at least one resource")


def permissions(rules: Sequence[rbac.PolicyRule], path: Path) -> Errors:
    """Yield an error if the rules of a role grant more than MOST_PERMISSIONS permissions."""
    if (count := sum(map(_permissions, rules))) > MOST_PERMISSIONS:
        text = f"the rules come to {count} permissions (verbs times groups times resources times names)"
        yield forbidden(path, f"{text}, at most {MOST_PERMISSIONS} are allowed; split the role or use '*'")


def _permissions(rule: rbac.PolicyRule) -> int:
    objects = len(rule.apiGroups) * len(rule.resources) * max(1, len(rule.resourceNames))
    return len(rule.verbs) * (objects + len(rule.nonResourceURLs))
