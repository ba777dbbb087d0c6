"""Parameters of validation besides the object."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dray.api.custom.judgement import judged
from dray.api.custom.structure import SchemaNode
from dray.api.errors import FieldError
from dray.api.gates import FeatureGates
from dray.api.wire import Tree


class Complaint(NamedTuple):
    """Error message for an expression in the wording of Kubernetes, and how to report it."""

    reason: Literal["Invalid", "Forbidden", "InternalError"]
    text: str


SelectorCheck = Callable[[str], Complaint | None]
DerivedCheck = Callable[[str], tuple[Complaint | None, int]]
"""Checks the expression of a derived attribute. Returns the complaint or None, and the maximum cost."""
ExpressionUse = Literal["condition", "variable", "validation", "message", "annotation", "mutation", "json patch"]
# (use, expression, name of a variable) → complaint about an expression of a policy.
PolicyCheck = Callable[[ExpressionUse, str, str], Complaint | None]
# (has parameters, has variables) → checker of the expressions of one policy, to be called in their order.
PolicyExpressions = Callable[[bool, bool], PolicyCheck]


# RuleFaults checks all rules of a schema; fields are relative to its root, as in `.properties[spec].default`. ObjectErrors
# validates an object (and its previous state) in a version of its kind.
RuleFaults = Callable[[SchemaNode], Iterable[FieldError]]
ObjectErrors = Callable[[SchemaNode, Tree, Tree | None], Iterable[FieldError]]


def accept_rules(node: SchemaNode) -> Iterable[FieldError]:
    """Accept all rules of a schema; for clients and tools that cannot evaluate CEL."""
    return ()


def accept_any(expression: str) -> Complaint | None:
    """Accept every expression: always return None. For clients and tools that cannot evaluate CEL."""
    return None


def accept_derived(expression: str) -> tuple[Complaint | None, int]:
    """Accept every derived attribute, with cost 0. For clients and tools that cannot evaluate CEL."""
    return None, 0


def accept_policies(params: bool, composed: bool) -> PolicyCheck:
    """Accept every expression of a policy; for clients and tools that cannot evaluate CEL."""
    return lambda use, expression, name: None


@dataclass(frozen=True)
class Context:
    """Parameters of validation: feature gates, the version that the client uses, and the checkers of expressions."""

    gates: FeatureGates
    check_selector: SelectorCheck = accept_any
    version: str = ""
    policy_expressions: PolicyExpressions = accept_policies
    check_derived: DerivedCheck = accept_derived
    rule_faults: RuleFaults = accept_rules
    object_errors: ObjectErrors = judged
