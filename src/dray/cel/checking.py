"""Validates an expression about devices: a selector, or the expression of a derived attribute.

A long expression takes about 0.1 s. `dray.api.validation` decides which expressions of an object are validated.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.cel.derived import compile_derived
from dray.cel.environment import DEFAULT_FEATURES, CelFeatures
from dray.cel.limits import MAX_COST, MAX_LENGTH, Interrupt
from dray.cel.selector import Refusal, check_selector

_NO_LIST = "must evaluate to a primitive scalar (string, integer, boolean, semver), not list"


class Checked(NamedTuple):
    """Result of validating an expression: the refusal or None, and the maximum cost of a derived attribute."""

    refusal: Refusal | None
    cost: int = 0


def check(
    expression: str, is_derived: bool, features: CelFeatures = DEFAULT_FEATURES, interrupt: Interrupt | None = None
) -> Checked:
    """Validate a selector, or a derived attribute if `is_derived`. The cost in the result is 0 for a selector.

    `interrupt` is ignored: validation is short.
    """
    if not is_derived:
        return Checked(check_selector(expression, features=features))
    if len(expression.encode(errors="surrogatepass")) > MAX_LENGTH:
        return Checked(Refusal("Invalid", f"may not be more than {MAX_LENGTH} bytes"))
    attribute = compile_derived(expression, features=features)
    if attribute.error is not None:
        is_invalid = attribute.error.kind == "RuleInvalid"
        return Checked(Refusal("Invalid" if is_invalid else "InternalError", attribute.error.detail))
    if attribute.may_be_list and not features.list_attributes:
        return Checked(Refusal("Invalid", _NO_LIST))
    if attribute.max_cost > MAX_COST:
        return Checked(Refusal("Forbidden", "too complex, exceeds cost limit"), attribute.max_cost)
    return Checked(None, attribute.max_cost)
