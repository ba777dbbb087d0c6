"""ClusterRole: permissions in the whole cluster, or in each namespace that binds them."""

from __future__ import annotations

from dray.api.cells import UNKNOWN
from dray.api.columns import NAME, text
from dray.api.kind import RBAC, KindRules, Resource
from dray.api.types import rbac

KIND = Resource(
    RBAC,
    "clusterroles",
    "ClusterRole",
    rbac.ClusterRole,
    namespaced=False,
    columns=(
        NAME,
        text("Created At", "metadata.creationTimestamp", UNKNOWN),
    ),
    rules=KindRules("access.create_role", "access.update_role", own_metadata=True),
    is_created_by_update=True,
)
