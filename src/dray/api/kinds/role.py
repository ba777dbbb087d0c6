"""Role: permissions in one namespace."""

from __future__ import annotations

from dray.api import names
from dray.api.cells import UNKNOWN
from dray.api.columns import NAME, text
from dray.api.errors import invalid
from dray.api.kind import KindRules, Resource
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import rbac

KIND = Resource(
    rbac.Role,
    columns=(NAME, text("Created At", "metadata.creationTimestamp", UNKNOWN)),
    rules=KindRules(name=names.path_segment, order=("metadata", "rules", "changes")),
    is_created_by_update=True,
)


def no_urls(rule: rbac.PolicyRule, path: Path) -> Errors:
    """Yield an error if a rule of a namespaced role has nonResourceURLs."""
    if rule.nonResourceURLs:
        text = "namespaced rules cannot apply to non-resource URLs"
        yield invalid(path / "nonResourceURLs", rule.nonResourceURLs, text)
