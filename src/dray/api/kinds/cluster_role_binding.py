"""ClusterRoleBinding: grants the permissions of a ClusterRole in the whole cluster."""

from __future__ import annotations

from dray.api import names
from dray.api.errors import required
from dray.api.kind import KindRules, Resource
from dray.api.kinds.role_binding import BINDING_COLUMNS, BINDING_DEFAULTS, role_ref, subject_groups
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import rbac

KIND = Resource(
    rbac.ClusterRoleBinding,
    namespaced=False,
    columns=BINDING_COLUMNS,
    rules=KindRules(
        name=names.path_segment, order=("metadata", "rules", "changes", "last"), last="role_binding.same_role"
    ),
    defaults=BINDING_DEFAULTS,
    more_defaults=subject_groups,
    is_created_by_update=True,
)


def cluster_role_ref(reference: rbac.RoleRef, path: Path) -> Errors:
    return role_ref(reference, path, ("ClusterRole",))


def account_namespace(subject: rbac.Subject, path: Path) -> Errors:
    """Yield an error if a subject is a service account without namespace."""
    if subject.kind == "ServiceAccount" and not subject.namespace:
        yield required(path / "namespace")
