"""Nobody grants more than they have: the check on writes of roles and bindings.

A rule is covered if each single thing that it allows (one verb on one resource, perhaps of one name, or one path) is
allowed by some rule of the writer. The verbs `escalate` on a role and `bind` on the role of a binding are the exception
that an administrator can grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from dray.api.types.rbac import PolicyRule
from dray.apiserver.security.authorization import NAMED_ONLY


def uncovered(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The single permissions of `wanted` that no rule of `owned` allows."""
    return [part for rule in wanted for part in _parts(rule) if not any(_allows(mine, part) for mine in owned)]


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
    for verb, url in product(rule.verbs, rule.nonResourceURLs):
        yield PolicyRule(verbs=(verb,), nonResourceURLs=(url,))
    for verb, group, resource in product(rule.verbs, rule.apiGroups, rule.resources):
        if not rule.resourceNames:
            yield PolicyRule(verbs=(verb,), apiGroups=(group,), resources=(resource,))
        for name in rule.resourceNames:
            yield PolicyRule(verbs=(verb,), apiGroups=(group,), resources=(resource,), resourceNames=(name,))


def _allows(mine: PolicyRule, part: PolicyRule) -> bool:
    verb = part.verbs[0]
    if verb not in mine.verbs and (verb in NAMED_ONLY or "*" not in mine.verbs):
        return False
    if part.nonResourceURLs:
        return any(_path_covers(path, part.nonResourceURLs[0]) for path in mine.nonResourceURLs)
    return (
        _has(mine.apiGroups, part.apiGroups[0])
        and _resource_covered(mine.resources, part.resources[0])
        and (not mine.resourceNames or (bool(part.resourceNames) and part.resourceNames[0] in mine.resourceNames))
    )


def _has(values: Sequence[str], value: str) -> bool:
    return "*" in values or value in values


def _resource_covered(mine: Sequence[str], resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    return _has(mine, resource) or (bool(slash) and f"*/{subresource}" in mine)


def _path_covers(pattern: str, path: str) -> bool:
    return path == pattern or (pattern.endswith("*") and path.startswith(pattern[:-1]))
