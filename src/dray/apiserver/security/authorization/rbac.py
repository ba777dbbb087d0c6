"""Role-based access control: the rights granted by roles and bindings.

Rights of a user in the whole cluster, and those in one namespace, are collected once in tables that index rules by
resource and cache decisions. Tables are valid until a role or binding changes. Bindings are indexed by subject, per
namespace on first use, so a change costs only as much as the namespaces in use. Aggregated cluster roles are computed
here. A binding to a missing role grants nothing and is mentioned in the refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from dray.api.resources import BY_TYPE
from dray.api.selectors import label_selector
from dray.api.types.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from dray.api.users import User
from dray.apiserver.read.reader import Reader, many, one
from dray.apiserver.security.authorization import NAMED_ONLY, NO_OPINION, Attributes, Decision

RbacBinding = ClusterRoleBinding | RoleBinding
SubjectKey = tuple[str, str, str]  # kind, namespace, name
BindingsBySubject = dict[SubjectKey, list[tuple[RbacBinding, Subject]]]
RESOURCES = tuple(BY_TYPE[type_] for type_ in (ClusterRole, ClusterRoleBinding, Role, RoleBinding))
MANY_QUESTIONS = 1024  # cached decisions per user and namespace; components ask a few questions very often
MANY_USERS = 4096  # cached tables; with more users at once, the cache is cleared


class RoleGrant(NamedTuple):
    """Rules of a role, and which binding grants them to which subject."""

    rules: tuple[PolicyRule, ...]
    reason: str
    missing: str = ""  # set if the role does not exist


class Right(NamedTuple):
    """Rights of one rule on each of its resources. Without names, they apply to all objects."""

    verbs: frozenset[str]
    groups: frozenset[str]
    names: frozenset[str]
    reason: str


class GrantTable:
    """Rights of one user in one scope: from cluster role bindings, or from the role bindings of one namespace.

    Rules are kept whole and indexed by resource, because expanding the product of their lists would take too much
    memory.
    """

    def __init__(self, grants: Iterable[RoleGrant]) -> None:
        self.rules: list[PolicyRule] = []
        self.missing: list[str] = []
        self._rights: dict[str, list[Right]] = {}  # by resource
        self._paths: list[tuple[frozenset[str], str, str]] = []  # verbs, path or prefix*, reason
        # reasons by action, if the object's name does not matter
        self._answered: dict[tuple[str, str, str, str], str] = {}
        for grant in grants:
            if grant.missing:
                self.missing.append(grant.missing)
            self.rules.extend(grant.rules)
            for rule in grant.rules:
                self._add(rule, grant.reason)

    def _add(self, rule: PolicyRule, reason: str) -> None:
        """Index one rule by its resources and paths."""
        verbs = frozenset(rule.verbs)
        for path in rule.nonResourceURLs:
            self._paths.append((verbs, path, reason))
        right = Right(verbs, frozenset(rule.apiGroups), frozenset(rule.resourceNames), reason)
        for resource in frozenset(rule.resources):
            self._rights.setdefault(resource, []).append(right)

    def find(self, attributes: Attributes) -> str | None:
        """Return why the action is allowed, as text, or None if it is not."""
        if attributes.path:
            return self._find_path(attributes)
        question = (attributes.verb, attributes.group, attributes.resource, attributes.subresource)
        reason = self._answered.get(question)
        return self._find_anew(question, attributes) if reason is None else reason

    def covers(self, part: PolicyRule) -> bool:
        """Return whether a granted rule allows everything that a rule with a single permission allows."""
        (verb,) = part.verbs
        if part.nonResourceURLs:
            return self._find_path(Attributes(verb, path=part.nonResourceURLs[0])) is not None
        plural, _, subresource = part.resources[0].partition("/")
        attributes = Attributes(verb, part.apiGroups[0], plural, subresource)
        if part.resourceNames:
            return self.find(msgspec.structs.replace(attributes, name=part.resourceNames[0])) is not None
        return any(not right.names for right in self._matching(attributes))

    def _matching(self, attributes: Attributes) -> Iterator[Right]:
        """Yield the rights to the verb and resource, regardless of names."""
        for resource in _resources(attributes):
            for right in self._rights.get(resource, ()):
                if _has(right.groups, attributes.group) and _includes(right.verbs, attributes.verb):
                    yield right

    def _find_anew(self, question: tuple[str, str, str, str], attributes: Attributes) -> str | None:
        """Return why the action is allowed, or None if it is not.

        Caches the reason under `question` if the object's name does not matter.
        """
        by_name = False
        for right in self._matching(attributes):
            if not right.names:
                if not by_name and len(self._answered) < MANY_QUESTIONS:
                    self._answered[question] = right.reason
                return right.reason
            by_name = True
            if attributes.name in right.names:
                return right.reason
        return None

    def _find_path(self, attributes: Attributes) -> str | None:
        """Return why a non-resource URL is allowed, or None if it is not."""
        for verbs, path, reason in self._paths:
            if _includes(verbs, attributes.verb) and _path_matches(path, attributes.path):
                return reason
        return None


class Rbac:
    """Evaluates roles and bindings."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last_change = reader.last_change(*RESOURCES)
        self._seen = -1
        self._tables: dict[tuple[str, tuple[str, ...], str], GrantTable] = {}
        self._bindings: dict[str, BindingsBySubject] = {}

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision on an action. Never denies: without a matching rule there is no opinion."""
        missing: list[str] = []
        for table in self.tables(user, attributes.namespace):
            reason = table.find(attributes)
            if reason is not None:
                return Decision(True, reason)
            missing += table.missing
        return Decision(False, "RBAC: " + ", ".join(missing)) if missing else NO_OPINION

    def rules(self, user: User, namespace: str) -> list[PolicyRule]:
        """Return the rules of a user in a namespace, or, if it is empty, in the cluster scope."""
        return [rule for table in self.tables(user, namespace) for rule in table.rules]

    def tables(self, user: User, namespace: str) -> tuple[GrantTable, ...]:
        """Return the rights of a user: the cluster-wide table, then that of the namespace.

        An empty `namespace` has no table of its own.
        """
        seen = self._last_change.revision
        if seen != self._seen or len(self._tables) > MANY_USERS:
            self._seen = seen
            self._tables.clear()
            self._bindings.clear()
        everywhere = self._table(user, "")
        return (everywhere, self._table(user, namespace)) if namespace else (everywhere,)

    def _table(self, user: User, scope: str) -> GrantTable:
        """Return the table of a user's rights in a scope, cached.

        `scope` is a namespace, or "" for the cluster scope.
        """
        key = (user.name, user.groups, scope)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = GrantTable(self._grants(user, scope))
        return table

    def rules_of(self, ref: RoleRef, namespace: str) -> tuple[PolicyRule, ...] | None:
        """Return the rules of a role, with aggregation, or None if the role does not exist.

        `namespace` is that of a Role; it is not used for a ClusterRole.
        """
        if ref.kind == "Role":
            role = one(self._reader, Role, namespace, ref.name)
            return None if role is None else role.rules or ()
        cluster_role = one(self._reader, ClusterRole, "", ref.name)
        if cluster_role is None:
            return None
        return self.effective(cluster_role)

    def effective(self, role: Role | ClusterRole) -> tuple[PolicyRule, ...]:
        """Return the rules that a role grants: its own, or those of the roles that it aggregates."""
        gathers = isinstance(role, ClusterRole) and role.aggregationRule
        return tuple(self._aggregated(role)) if isinstance(role, ClusterRole) and gathers else role.rules or ()

    def gatherers(self, role: ClusterRole) -> set[str]:
        """Return the names of the cluster roles that aggregate this role's rules, directly or through others."""
        found: dict[str, ClusterRole] = {}
        pending = [role]
        while pending:
            labels = pending.pop().metadata.labels
            for other in many(self._reader, ClusterRole):
                name = other.metadata.name
                if name not in found and name != role.metadata.name and _gathers(other, labels):
                    found[name] = other
                    pending.append(other)
        return set(found)

    def _aggregated(self, role: ClusterRole, seen: frozenset[str] = frozenset()) -> Iterator[PolicyRule]:
        """Yield the rules of the roles that this role selects, recursively. Yields nothing if the role selects none.

        `seen` has the names of the roles on the way here, which are left out.
        """
        if role.aggregationRule is None:
            return
        seen |= {role.metadata.name}
        for other in many(self._reader, ClusterRole):
            if other.metadata.name in seen:
                continue
            if _gathers(role, other.metadata.labels):
                yield from self._aggregated(other, seen) if other.aggregationRule else other.rules or ()

    def _grants(self, user: User, scope: str) -> Iterator[RoleGrant]:
        """Yield the grants of all bindings to a user in a scope."""
        bindings = self._bindings_in(scope)
        for key in _subject_keys(user):
            for binding, subject in bindings.get(key, ()):
                yield self._grant(binding, subject, scope)

    def _grant(self, binding: RbacBinding, subject: Subject, scope: str) -> RoleGrant:
        """Return the grant of one binding to one subject; `scope` is a namespace or "".

        If the role does not exist, the grant has no rules and says that the role is missing.
        """
        ref = binding.roleRef
        rules = self.rules_of(ref, scope)
        if rules is None:
            return RoleGrant((), "", f'{ref.kind.lower()}.rbac.authorization.k8s.io "{ref.name}" not found')
        kind = "RoleBinding" if scope else "ClusterRoleBinding"
        name = f"{binding.metadata.name}/{scope}" if scope else binding.metadata.name
        whom = f"{subject.name}/{subject.namespace}" if subject.kind == "ServiceAccount" else subject.name
        reason = f'RBAC: allowed by {kind} "{name}" of {ref.kind} "{ref.name}" to {subject.kind} "{whom}"'
        return RoleGrant(rules, reason)

    def _bindings_in(self, scope: str) -> BindingsBySubject:
        """Return the bindings in a scope by subject, cached.

        `scope` is a namespace, or "" for ClusterRoleBindings.
        """
        index = self._bindings.get(scope)
        if index is None:
            index = self._bindings[scope] = {}
            found: Iterable[RbacBinding] = (
                many(self._reader, RoleBinding, scope) if scope else many(self._reader, ClusterRoleBinding)
            )
            for binding in found:
                for subject in binding.subjects:
                    index.setdefault(_key_of(subject, scope), []).append((binding, subject))
        return index


def _gathers(role: ClusterRole, labels: Mapping[str, str]) -> bool:
    """Return whether a role aggregates roles with these labels."""
    rule = role.aggregationRule
    return rule is not None and any(label_selector(s).matches(labels) for s in rule.clusterRoleSelectors)


def _resources(attributes: Attributes) -> tuple[str, ...]:
    """Return all forms in which a rule can name the resource of an action: `pods` or `*`.

    For a subresource: `pods/log`, `*` or `*/log`.
    """
    if attributes.subresource:
        return (f"{attributes.resource}/{attributes.subresource}", "*", f"*/{attributes.subresource}")
    return (attributes.resource, "*")


def _has(values: frozenset[str], value: str) -> bool:
    """Return whether the values contain a value or `*`."""
    return value in values or "*" in values


def _includes(verbs: frozenset[str], verb: str) -> bool:
    """Return whether the verbs include a verb. `*` does not include verbs that must be named."""
    return verb in verbs or ("*" in verbs and verb not in NAMED_ONLY)


def _path_matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def _subject_keys(user: User) -> Iterator[SubjectKey]:
    """Yield the keys of all subjects that a user matches, as (kind, namespace, name).

    The namespace is empty except for a ServiceAccount.
    """
    yield ("User", "", user.name)
    if account := user.service_account:
        yield ("ServiceAccount", *account)
    for group in user.groups:
        yield ("Group", "", group)


def _key_of(subject: Subject, scope: str) -> SubjectKey:
    """Return the key of a subject. A service account without namespace is in the namespace of its binding."""
    if subject.kind == "ServiceAccount":
        return (subject.kind, subject.namespace or scope, subject.name)
    return (subject.kind, "", subject.name)
