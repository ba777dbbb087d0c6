"""Checks many expressions about devices, as a computation that can be done in another process.

A long one takes a tenth of a second. Left out: which expressions an object has (`dray.api.validation`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dray.cel.derived import compile_derived
from dray.cel.environment import DEFAULT_FEATURES, CelFeatures
from dray.cel.limits import MAX_COST, MAX_LENGTH, Interrupt
from dray.cel.selector import Refusal, check_selector

_NO_LIST = "must evaluate to a primitive scalar (string, integer, boolean, semver), not list"


class ExpressionToCheck(NamedTuple):
    """An expression: a selector, or one whose value is a `derived` attribute."""

    expression: str
    derived: bool = False


class Checked(NamedTuple):
    """Whether an API object may contain an expression, and what a derived attribute costs at most."""

    refusal: Refusal | None
    cost: int = 0


def check(asked: ExpressionToCheck, features: CelFeatures = DEFAULT_FEATURES) -> Checked:
    """Check one expression."""
    if not asked.derived:
        return Checked(check_selector(asked.expression, features=features))
    if len(asked.expression.encode(errors="surrogatepass")) > MAX_LENGTH:
        return Checked(Refusal("Invalid", f"may not be more than {MAX_LENGTH} bytes"))
    attribute = compile_derived(asked.expression, features=features)
    if attribute.error is not None:
        is_invalid = attribute.error.kind == "RuleInvalid"
        return Checked(Refusal("Invalid" if is_invalid else "InternalError", attribute.error.detail))
    if attribute.may_be_list and not features.list_attributes:
        return Checked(Refusal("Invalid", _NO_LIST))
    if attribute.max_cost > MAX_COST:
        return Checked(Refusal("Forbidden", "too complex, exceeds cost limit"), attribute.max_cost)
    return Checked(None, attribute.max_cost)


class ExpressionChecking:
    """What is to be said of each of some expressions."""

    def __init__(self, expressions: Iterable[ExpressionToCheck], features: CelFeatures = DEFAULT_FEATURES) -> None:
        self._left = list(expressions)
        self._features = features
        self.checked: dict[ExpressionToCheck, Checked] = {}

    def run(self, interrupt: Interrupt) -> bool:
        """Check one after the other until told to stop; answers whether all are checked."""
        while self._left:
            self.checked[self._left[-1]] = check(self._left[-1], self._features)
            self._left.pop()
            if self._left and interrupt():
                return False
        return True

    def found(self) -> dict[ExpressionToCheck, Checked]:
        return self.checked

    def accept(self, found: dict[ExpressionToCheck, Checked]) -> None:
        self.checked = found
