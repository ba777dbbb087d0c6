"""Nobody grants more than they have: writes of roles and bindings are compared with the rules of the writer.

Not a plugin of Kubernetes, where the storage of roles does this; so it cannot be turned off here either. Members of
system:masters have everything and are not asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from dray.api.types.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.authorization import Attributes, Union
from dray.apiserver.authorization.escalation import compact, uncovered
from dray.apiserver.authorization.policy import RBAC
from dray.apiserver.authorization.rbac import Rbac
from dray.apiserver.user import MASTERS

EVERYTHING = (
    PolicyRule(verbs=("*",), apiGroups=("*",), resources=("*",)),
    PolicyRule(verbs=("*",), nonResourceURLs=("*",)),
)
_ROLES = (Role, ClusterRole)
_BINDINGS = (RoleBinding, ClusterRoleBinding)


class RoleEscalation(Admission):
    """Refuses roles and bindings that would give more than the writer has."""

    name = "RoleEscalation"
    types = (*_ROLES, *_BINDINGS)

    def __init__(self, authorizer: Union, rbac: Rbac) -> None:
        self._authorizer = authorizer
        self._rbac = rbac

    def validate(self, request: AdmissionRequest) -> None:
        if request.object is None or not request.concerns(*_ROLES, *_BINDINGS) or MASTERS in request.user.groups:
            return
        if request.concerns(*_ROLES):
            self._check_role(request)
        else:
            self._check_binding(request)

    def _check_role(self, request: AdmissionRequest) -> None:
        new, old = cast("Role | ClusterRole", request.object), cast("Role | ClusterRole | None", request.old)
        aggregates = isinstance(new, ClusterRole) and new.aggregationRule is not None
        if (
            old
            and old.rules == new.rules
            and getattr(old, "aggregationRule", None) == getattr(new, "aggregationRule", None)
        ):
            return
        if self._may(request, "escalate", request.resource.plural, request.name):
            return
        if aggregates and uncovered(self._owned(request), EVERYTHING):
            raise request.forbidden("must have cluster-admin privileges to use an aggregationRule")
        self._check_rules(request, new.rules or ())

    def _check_binding(self, request: AdmissionRequest) -> None:
        new = cast("RoleBinding | ClusterRoleBinding", request.object)
        old = cast("RoleBinding | ClusterRoleBinding | None", request.old)
        if old and old.subjects == new.subjects and old.roleRef == new.roleRef:
            return
        plural = "roles" if new.roleRef.kind == "Role" else "clusterroles"
        if self._may(request, "bind", plural, new.roleRef.name):
            return
        rules = self._rbac.rules_of(new.roleRef, request.namespace)
        if rules is None:
            kind = f"{new.roleRef.kind.lower()}.{RBAC}"
            raise request.forbidden(f'{kind} "{new.roleRef.name}" not found, and the user may not bind unknown roles')
        self._check_rules(request, rules)

    def _check_rules(self, request: AdmissionRequest, rules: Iterable[PolicyRule]) -> None:
        missing = uncovered(self._owned(request), rules)
        if missing:
            user = request.user
            groups = " ".join(f'"{group}"' for group in user.groups)
            raise request.forbidden(
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
                + "\n".join(compact(rule) for rule in missing)
            )

    def _owned(self, request: AdmissionRequest) -> list[PolicyRule]:
        return self._rbac.rules(request.user, request.namespace)

    def _may(self, request: AdmissionRequest, verb: str, plural: str, name: str) -> bool:
        attributes = Attributes(verb, RBAC, plural, namespace=request.namespace, name=name)
        return self._authorizer.authorize(request.user, attributes).allowed
