"""ClusterRoleBinding: gives the permissions of a ClusterRole in the whole cluster."""

from __future__ import annotations

from dray.api.kind import RBAC, Resource
from dray.api.kinds.role_binding import BINDING_COLUMNS
from dray.api.types import rbac

KIND = Resource(
    RBAC,
    "clusterrolebindings",
    "ClusterRoleBinding",
    rbac.ClusterRoleBinding,
    namespaced=False,
    columns=BINDING_COLUMNS,
)
