"""Node selectors: at least one term must hold; within a term, all conditions must hold.

A term without conditions matches no node, and neither does a term with an invalid condition. Validation rejects
both, but stored objects may be older than the validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dray.api.selectors.labels import Operator, Requirement
from dray.api.types import core

_OPERATORS: Mapping[str, Operator] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
    "Gt": "gt",
    "Lt": "lt",
}


def node_selector_matches(selector: core.NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    """Return whether a node with these labels and this name matches any term of the selector."""
    return any(term_matches(term, labels, name) for term in selector.nodeSelectorTerms)


def term_matches(term: core.NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Return whether a node with these labels and this name matches one term. An empty term matches no node."""
    if not term.matchExpressions and not term.matchFields:
        return False
    return _all_hold(term.matchExpressions, labels) and _all_hold(term.matchFields, {"metadata.name": name})


def _all_hold(requirements: Iterable[core.NodeSelectorRequirement], values: Mapping[str, str]) -> bool:
    return all(_holds(requirement, values) for requirement in requirements)


def _holds(requirement: core.NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    """Return whether these values meet a requirement; False for an unknown operator."""
    operator = _OPERATORS.get(requirement.operator)
    if operator is None or (operator in ("gt", "lt") and len(requirement.values) != 1):
        return False
    return Requirement(requirement.key, operator, requirement.values).matches(values)
