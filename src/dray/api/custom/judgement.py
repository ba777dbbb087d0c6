"""Validates a custom object against its schema: first the values, then the CEL rules, which expect valid values."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import UNSET

from dray.api.custom import values
from dray.api.custom.structure import SchemaNode
from dray.api.custom.values import NEVER, Interrupt
from dray.api.errors import FieldError
from dray.api.wire import Tree

SchemaRules = Callable[[SchemaNode, Tree, Tree | None, Interrupt], Iterable[FieldError]]

# Errors after which CEL rules are not evaluated. FieldValueForbidden means that validation needed too many steps.
_BLOCKING = frozenset(
    {"FieldValueForbidden", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
_UNASKED = FieldError(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def no_rules(node: SchemaNode, tree: Tree, old: Tree | None, interrupt: Interrupt) -> Iterable[FieldError]:
    """Return no errors; placeholder for callers that cannot evaluate CEL rules."""
    return ()


def judged(
    node: SchemaNode, tree: Tree, old: Tree | None, rules: SchemaRules = no_rules, interrupt: Interrupt = NEVER
) -> list[FieldError]:
    """Validate an object. Returns its field errors; `old` is the object that it replaces, or None.

    CEL rules are not evaluated after certain value errors; an additional error says so. Raises the exception of
    `interrupt`.
    """
    found = values.value_faults(node, tree, UNSET if old is None else old, interrupt)
    if not node.has_rules:
        return found
    if any(fault.reason in _BLOCKING for fault in found):
        return [*found, _UNASKED]
    return [*found, *rules(node, tree, old, interrupt)]
