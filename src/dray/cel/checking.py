"""Checks an expression about devices: a selector, or one whose value is a derived attribute.

A long one takes a tenth of a second. Left out: which expressions an object has (`dray.api.validation`).
"""

from __future__ import annotations

from typing import NamedTuple

from dray.cel.derived import compile_derived
from dray.cel.environment import DEFAULT_FEATURES, CelFeatures
from dray.cel.limits import MAX_COST, MAX_LENGTH, Interrupt
from dray.cel.selector import Refusal, check_selector

_NO_LIST = "must evaluate to a primitive scalar (string, integer, boolean, semver), not list"


class Checked(NamedTuple):
    """Whether an API object may contain an expression, and what a derived attribute costs at most."""

    refusal: Refusal | None
    cost: int = 0


def check(
    expression: str, is_derived: bool, features: CelFeatures = DEFAULT_FEATURES, interrupt: Interrupt | None = None
) -> Checked:
    """Check one expression. It ends too soon to be interrupted."""
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
