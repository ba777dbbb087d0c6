"""Nobody grants more than they have: the check on writes of roles and bindings.

A rule is covered if each single thing that it allows (one verb on one resource, perhaps of one name, or one path) is
allowed by some rule of the writer. A rule without names allows every name, so only a rule without names covers it. The
verbs `escalate` on a role and `bind` on the role of a binding are the exception that an administrator can grant.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import product

from dray.api.types.rbac import PolicyRule
from dray.apiserver.security.authorization.rbac import GrantTable


def uncovered(owned: Sequence[GrantTable], wanted: Iterable[PolicyRule]) -> Generator[None, None, list[PolicyRule]]:
    """Returns the single permissions of `wanted` that no rule of `owned` allows. The work can pause after each."""
    missing = []
    for rule in wanted:
        for part in _parts(rule):
            if not any(table.covers(part) for table in owned):
                missing.append(part)
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


def _parts(rule: PolicyRule) -> Iterator[PolicyRule]:
    """Rules that allow one thing each, and together what `rule` allows."""
    for verb, url in product(rule.verbs, rule.nonResourceURLs):
        yield PolicyRule(verbs=(verb,), nonResourceURLs=(url,))
    names: list[tuple[str, ...]] = [(name,) for name in rule.resourceNames] or [()]
    for verb, group, resource, named in product(rule.verbs, rule.apiGroups, rule.resources, names):
        yield PolicyRule(verbs=(verb,), apiGroups=(group,), resources=(resource,), resourceNames=named)
