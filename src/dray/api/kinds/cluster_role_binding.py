"""ClusterRoleBinding: grants the permissions of a ClusterRole in the whole cluster."""

from __future__ import annotations

from dray.api import names
from dray.api.kind import KindRules, Resource
from dray.api.kinds.role_binding import BINDING_COLUMNS, BINDING_DEFAULTS, subject_groups
from dray.api.types import rbac

KIND = Resource(
    rbac.ClusterRoleBinding,
    namespaced=False,
    columns=BINDING_COLUMNS,
    rules=KindRules(name=names.path_segment, order=("metadata", "rules", "changes", "last"), last="access.same_role"),
    defaults=BINDING_DEFAULTS,
    more_defaults=subject_groups,
    is_created_by_update=True,
)
