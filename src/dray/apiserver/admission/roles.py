"""RBAC escalation: no user grants more than the user has.

Written roles and bindings are compared with the user's rules. Kubernetes does this in the storage of roles rather
than in an admission plugin, so it cannot be disabled here either. Members of system:masters are not checked.

A rule is covered if each single permission in it (one verb on one resource, perhaps with one name, or on one path) is
covered by some rule of the user. A rule without names allows every name, so only a rule without names covers it. An
administrator can grant exceptions: the verb `escalate` on a role, and `bind` on the role of a binding.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable, Iterator, Sequence
from itertools import product
from typing import cast

from dray.api.types.rbac import AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding
from dray.api.users import MASTERS
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.security.authorization import Attributes, Union
from dray.apiserver.security.authorization.policy import RBAC
from dray.apiserver.security.authorization.rbac import GrantTable, Rbac
from dray.background.turns import turns


def uncovered(owned: Sequence[GrantTable], wanted: Iterable[PolicyRule]) -> Generator[None, None, list[PolicyRule]]:
    """Return the single permissions of `wanted` that no rule of `owned` allows. A generator that yields after each."""
    missing = []
    for rule in wanted:
        for part in _parts(rule):
            if not any(table.covers(part) for table in owned):
                missing.append(part)
            yield
    return missing


def compact(rule: PolicyRule) -> str:
    """Return a rule as Kubernetes prints it in the denial."""
    fields = (
        ("APIGroups", rule.apiGroups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.resourceNames),
        ("NonResourceURLs", rule.nonResourceURLs),
        ("Verbs", rule.verbs),
    )
    shown = (f"{name}:[{' '.join(_quoted(values))}]" for name, values in fields if values)
    return "{" + ", ".join(shown) + "}"


def _quoted(values: Iterable[str]) -> Iterator[str]:
    return (f'"{value}"' for value in values)


def _parts(rule: PolicyRule) -> Iterator[PolicyRule]:
    """Yield rules with one permission each, which together allow what `rule` allows.

    A permission is one verb with one URL, or with one group, resource and (if the rule lists names) name.
    """
    for verb, url in product(rule.verbs, rule.nonResourceURLs):
        yield PolicyRule(verbs=(verb,), nonResourceURLs=(url,))
    names: list[tuple[str, ...]] = [(name,) for name in rule.resourceNames] or [()]
    for verb, group, resource, named in product(rule.verbs, rule.apiGroups, rule.resources, names):
        yield PolicyRule(verbs=(verb,), apiGroups=(group,), resources=(resource,), resourceNames=named)


EVERYTHING = (
    PolicyRule(verbs=("*",), apiGroups=("*",), resources=("*",)),
    PolicyRule(verbs=("*",), nonResourceURLs=("*",)),
)
_ROLES = (Role, ClusterRole)
_BINDINGS = (RoleBinding, ClusterRoleBinding)


class RoleEscalation(Admission):
    """Denies roles and bindings that would grant more than the user has."""

    name = "RoleEscalation"
    types = (*_ROLES, *_BINDINGS)

    def __init__(self, authorizer: Union, rbac: Rbac) -> None:
        self._authorizer = authorizer
        self._rbac = rbac

    def validate(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Check a written role or binding. Returns the work as an awaitable, or None if nothing is checked."""
        if request.object is None or not request.concerns(*_ROLES, *_BINDINGS) or MASTERS in request.user.groups:
            return None
        return self._check_role(request) if request.concerns(*_ROLES) else self._check_binding(request)

    async def _check_role(self, request: AdmissionRequest) -> None:
        """Raise Forbidden if a role would grant more than the user has.

        Checked if its rules change, or if other roles newly aggregate its rules.
        """
        new, old = cast("Role | ClusterRole", request.object), cast("Role | ClusterRole | None", request.old)
        grows = self._newly_gathered(new, old)
        if old is None or old.rules != new.rules or _aggregation(old) != _aggregation(new):
            grows.add(request.name)
            aggregates = _aggregation(new) or _aggregation(old)
        else:
            aggregates = None
        if all(self._may(request, "escalate", request.resource.plural, name) for name in grows):
            return
        if aggregates and await self._missing(request, EVERYTHING):
            raise request.forbidden("must have cluster-admin privileges to use an aggregationRule")
        await self._check_rules(request, self._rbac.effective(new))

    def _newly_gathered(self, new: Role | ClusterRole, old: Role | ClusterRole | None) -> set[str]:
        """Return the names of the roles that aggregate `new` but did not aggregate `old`.

        Empty if `new` is no ClusterRole or its labels are unchanged. `old` is None for a new role.
        """
        if not isinstance(new, ClusterRole) or (old and old.metadata.labels == new.metadata.labels):
            return set()
        return self._rbac.gatherers(new) - (self._rbac.gatherers(old) if isinstance(old, ClusterRole) else set())

    async def _check_binding(self, request: AdmissionRequest) -> None:
        """Raise Forbidden if a new or changed binding grants rules that the user does not have.

        Users with the right to bind the role are exempt.
        """
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
        await self._check_rules(request, rules)

    async def _check_rules(self, request: AdmissionRequest, rules: Iterable[PolicyRule]) -> None:
        """Raise Forbidden if the user lacks permissions in `rules`. The message lists them."""
        if missing := await self._missing(request, rules):
            user = request.user
            groups = " ".join(f'"{group}"' for group in user.groups)
            raise request.forbidden(
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
                + "\n".join(compact(rule) for rule in missing)
            )

    async def _missing(self, request: AdmissionRequest, rules: Iterable[PolicyRule]) -> list[PolicyRule]:
        """Return the single permissions in `rules` that the user does not have."""
        owned = self._rbac.tables(request.user, request.namespace)
        return await turns().run(request.user.name, uncovered(owned, rules))

    def _may(self, request: AdmissionRequest, verb: str, plural: str, name: str) -> bool:
        """Return whether the user may perform a verb on the named role."""
        attributes = Attributes(verb, RBAC, plural, namespace=request.namespace, name=name)
        return self._authorizer.authorize(request.user, attributes).allowed


def _aggregation(role: Role | ClusterRole | None) -> AggregationRule | None:
    return role.aggregationRule if isinstance(role, ClusterRole) else None
