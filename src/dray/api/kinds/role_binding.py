"""RoleBinding: gives the permissions of a role in one namespace."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import RBAC, Resource
from dray.api.types import rbac


def _subjects(binding: rbac.RoleBinding | rbac.ClusterRoleBinding, kind: str) -> str:
    found = [subject for subject in binding.subjects or () if subject.kind == kind]
    return ", ".join(f"{s.namespace}/{s.name}" if kind == "ServiceAccount" else s.name for s in found)


BINDING_COLUMNS = (
    NAME,
    text("Role", lambda binding: f"{binding.roleRef.kind}/{binding.roleRef.name}"),
    AGE,
    wide("Users", lambda binding: _subjects(binding, "User")),
    wide("Groups", lambda binding: _subjects(binding, "Group")),
    wide("ServiceAccounts", lambda binding: _subjects(binding, "ServiceAccount")),
)


KIND = Resource(RBAC, "rolebindings", "RoleBinding", rbac.RoleBinding, columns=BINDING_COLUMNS)
