"""What validation needs to know besides the object."""

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
    """What is wrong with an expression, in Kubernetes' words, and how that is reported."""

    reason: Literal["Invalid", "Forbidden", "InternalError"]
    text: str


SelectorCheck = Callable[[str], Complaint | None]
DerivedCheck = Callable[[str], tuple[Complaint | None, int]]
"""A check of the expression of a derived attribute: what is wrong with it, and what it costs at most."""
ExpressionUse = Literal["condition", "variable", "validation", "message", "annotation", "mutation", "json patch"]
# An expression of a policy, what it is for, and, of a variable, its name.
PolicyCheck = Callable[[ExpressionUse, str, str], Complaint | None]
# A check for the expressions of one policy, in their order: whether it has parameters, and whether it has variables.
PolicyExpressions = Callable[[bool, bool], PolicyCheck]


# A check of all rules of a schema, whose fields begin at the schema's root, as in `.properties[spec].default`; and one of
# an object (and the one before it) in a version of its kind.
RuleFaults = Callable[[SchemaNode], Iterable[FieldError]]
ObjectErrors = Callable[[SchemaNode, Tree, Tree | None], Iterable[FieldError]]


def accept_rules(node: SchemaNode) -> Iterable[FieldError]:
    return ()


def accept_any(expression: str) -> Complaint | None:
    """Accept every expression: clients and tools have no expression language at hand."""
    return None


def accept_derived(expression: str) -> tuple[Complaint | None, int]:
    """Accept every derived attribute, for the same reason."""
    return None, 0


def accept_policies(params: bool, composed: bool) -> PolicyCheck:
    """Accept every expression of a policy, for the same reason."""
    return lambda use, expression, name: None


@dataclass(frozen=True)
class Context:
    """How strict to be: gates, the version that the client speaks, and the checkers of expressions."""

    gates: FeatureGates
    check_selector: SelectorCheck = accept_any
    version: str = ""
    policy_expressions: PolicyExpressions = accept_policies
    check_derived: DerivedCheck = accept_derived
    rule_faults: RuleFaults = accept_rules
    object_errors: ObjectErrors = judged
