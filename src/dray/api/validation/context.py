"""What validation needs to know besides the object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from dray.api.gates import FeatureGates
from dray.api.validation.memory import Memory


class Complaint(NamedTuple):
    """What is wrong with an expression, in Kubernetes' words, and how that is reported."""

    reason: Literal["Invalid", "Forbidden", "InternalError"]
    text: str


SelectorCheck = Callable[[str], Complaint | None]
ExpressionUse = Literal["condition", "variable", "validation", "message", "annotation"]
# An expression of a policy, what it is for, and, of a variable, its name.
PolicyCheck = Callable[[ExpressionUse, str, str], Complaint | None]
# A check for the expressions of one policy, in their order: whether it has parameters, and whether it has variables.
PolicyExpressions = Callable[[bool, bool], PolicyCheck]


def accept_any(expression: str) -> Complaint | None:
    """The check of those who have no expression language at hand: clients, tools."""
    return None


def accept_policies(params: bool, composed: bool) -> PolicyCheck:
    """Likewise, for the expressions of policies."""
    return lambda use, expression, name: None


@dataclass(frozen=True)
class Context:
    """How strict to be: gates, the version that the client speaks, and the checkers of expressions."""

    gates: FeatureGates
    check_selector: SelectorCheck = accept_any
    version: str = ""
    policy_expressions: PolicyExpressions = accept_policies
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)
