"""Validation of CEL expressions in admission policies, and of match conditions, which policies and webhooks share.

Callers that can compile CEL provide the checker (`Context.policy_expressions`). It is called in the order in which
expressions can refer to each other. On update, an expression that was stored before is not reported again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api import names
from dray.api.errors import duplicate, internal, invalid, required, too_many
from dray.api.paths import Path
from dray.api.rules import Errors, required_name
from dray.api.types.admissionregistration import MatchCondition
from dray.api.validation.context import ExpressionUse, PolicyCheck

MAX_CONDITIONS = 64

Stored = dict[ExpressionUse, set[str]]  # expressions that are already stored


class Expressions:
    """Checker of the expressions of one policy or webhook, with the expressions that are already stored."""

    def __init__(self, check: PolicyCheck, stored: Stored) -> None:
        self._check = check
        self._stored = stored

    def check(self, use: ExpressionUse, text: str, path: Path, name: str = "") -> Errors:
        complaint = self._check(use, text, name)
        if complaint is None or text in self._stored.get(use, ()):
            return
        if complaint.reason == "InternalError":
            yield internal(path, complaint.text)
        else:
            yield invalid(path, text, complaint.text)


def texts(conditions: Iterable[MatchCondition]) -> set[str]:
    """Return the expressions of match conditions without surrounding whitespace."""
    return {condition.expression.strip() for condition in conditions}


def match_conditions(conditions: Sequence[MatchCondition], path: Path, expressions: Expressions) -> Errors:
    """Yield errors in the match conditions of a policy or webhook: their number, names and expressions.

    If there are too many, nothing else is checked.
    """
    if len(conditions) > MAX_CONDITIONS:
        yield too_many(path, len(conditions), MAX_CONDITIONS)
        return
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        here, text = path / index, condition.expression.strip()
        if text:
            yield from expressions.check("condition", text, here / "expression")
        else:
            yield required(here / "expression")
        yield from required_name(condition.name, here / "name", names.qualified_name)
        if condition.name in seen:
            yield duplicate(here / "name", condition.name)
        seen.add(condition.name)
