"""Expressions about writes: those of admission policies, and the conditions that policies and webhooks have in common.

They are checked by whoever knows the language (`Context.policy_expressions`), in the order in which they may refer to each
other. On update, an expression that was there before is not complained about again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api import names
from dray.api.errors import duplicate, internal, invalid, required, too_many
from dray.api.paths import Path
from dray.api.types.admissionregistration import MatchCondition
from dray.api.validation.context import ExpressionUse, PolicyCheck
from dray.api.validation.lists import Errors, required_name

MAX_CONDITIONS = 64

Stored = dict[ExpressionUse, set[str]]  # expressions that were accepted before


class Expressions:
    """The checker of the expressions of one policy or webhook, which knows what was stored before."""

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
    """The expressions of conditions, as they are checked."""
    return {condition.expression.strip() for condition in conditions}


def match_conditions(conditions: Sequence[MatchCondition], path: Path, expressions: Expressions) -> Errors:
    """What narrows a policy or a webhook down: few, with names of their own."""
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
