"""RoleBinding: grants the permissions of a role in one namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api import names
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import RBAC, KindRules, Resource
from dray.api.paths import Path
from dray.api.rules import Errors, named, one_of, unchanged
from dray.api.types import rbac
from dray.api.wire import Tree
from dray.api.written import as_go

if TYPE_CHECKING:
    from dray.api.validation.context import Context


RBAC_GROUP = "rbac.authorization.k8s.io"
AnyRoleBinding = rbac.RoleBinding | rbac.ClusterRoleBinding


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


BINDING_DEFAULTS = {"roleRef.apiGroup": RBAC}


def subject_groups(tree: Tree) -> None:
    """Set the apiGroup of users and groups to the RBAC group if it is missing or empty, in place."""
    for subject in tree.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = RBAC


KIND = Resource(
    rbac.RoleBinding,
    columns=BINDING_COLUMNS,
    rules=KindRules(
        name=names.path_segment, order=("metadata", "rules", "changes", "last"), last="role_binding.same_role"
    ),
    defaults=BINDING_DEFAULTS,
    more_defaults=subject_groups,
    is_created_by_update=True,
)


def role_ref(reference: rbac.RoleRef, path: Path, kinds: tuple[str, ...] = ("Role", "ClusterRole")) -> Errors:
    yield from one_of(reference.apiGroup, (RBAC_GROUP,), path / "apiGroup")
    yield from one_of(reference.kind, kinds, path / "kind")
    if reference.name:
        yield from named(reference.name, path / "name", names.path_segment)


def same_role(binding: AnyRoleBinding, old: AnyRoleBinding, context: Context) -> Errors:
    """Yield an error if an update changes the roleRef of a binding."""
    yield from unchanged(binding.roleRef, old.roleRef, Path("roleRef"), as_go(binding.roleRef))
