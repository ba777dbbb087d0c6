"""ClusterRole: permissions for the whole cluster, or for the namespaces of RoleBindings that refer to it."""

from __future__ import annotations

from dray.api import names
from dray.api.cells import UNKNOWN
from dray.api.columns import NAME, text
from dray.api.kind import KindRules, Resource
from dray.api.types import rbac

KIND = Resource(
    rbac.ClusterRole,
    namespaced=False,
    columns=(NAME, text("Created At", "metadata.creationTimestamp", UNKNOWN)),
    rules=KindRules(name=names.path_segment, order=("metadata", "rules", "changes")),
    is_created_by_update=True,
)
