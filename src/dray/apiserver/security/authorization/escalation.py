"""Nobody grants more than they have: the check on writes of roles and bindings.

A rule is covered if each single thing that it allows (one verb on one resource, perhaps of one name, or one path) is
allowed by some rule of the writer. The verbs `escalate` on a role and `bind` on the role of a binding are the exception
that an administrator can grant.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import product

from dray.api.types.rbac import PolicyRule
from dray.apiserver.security.authorization import Attributes
from dray.apiserver.security.authorization.rbac import GrantTable


def uncovered(owned: Sequence[GrantTable], wanted: Iterable[PolicyRule]) -> Generator[None, None, list[PolicyRule]]:
    """The single permissions of `wanted` that no rule of `owned` allows; work that can pause after each."""
    missing = []
    for rule in wanted:
        for part in _parts(rule):
            if all(table.find(part) is None for table in owned):
                missing.append(_rule(part))
            yield
    return missing


def compact(rule: PolicyRule) -> str:
    """A rule as Kubernetes prints it in the refusal."""
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


def _parts(rule: PolicyRule) -> Iterator[Attributes]:
    for verb, url in product(rule.verbs, rule.nonResourceURLs):
        yield Attributes(verb, path=url)
    for verb, group, resource in product(rule.verbs, rule.apiGroups, rule.resources):
        plural, _, subresource = resource.partition("/")
        for name in rule.resourceNames or ("",):
            yield Attributes(verb, group, plural, subresource, name=name)


def _rule(part: Attributes) -> PolicyRule:
    """A rule that allows one thing."""
    if part.path:
        return PolicyRule(verbs=(part.verb,), nonResourceURLs=(part.path,))
    resource = f"{part.resource}/{part.subresource}" if part.subresource else part.resource
    names = (part.name,) if part.name else ()
    return PolicyRule(verbs=(part.verb,), apiGroups=(part.group,), resources=(resource,), resourceNames=names)
