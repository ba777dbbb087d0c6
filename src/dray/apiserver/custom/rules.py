"""`x-kubernetes-validations`: check the CEL rules of a schema, and evaluate them on objects.

A rule sees its part of the object as `self`, typed by the schema, and the value before an update as `oldSelf`; a rule
that uses `oldSelf` is evaluated only on updates. Estimates limit the cost of a schema's rules, meters the actual cost
on an object. Compiled rules are cached with their schema node. Checks by the schema itself are not part of this
module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET

from dray.api.custom.structure import SchemaNode, ValidationRule
from dray.api.custom.values import by_key, key_of
from dray.api.errors import FieldError, forbidden, invalid, shown
from dray.api.wire import Tree
from dray.apiserver.custom.typing import Convert, SchemaSizes, cardinality, declared
from dray.cel.cost import estimate_cost
from dray.cel.declarations import Environment, collect
from dray.cel.environment import LIBRARIES, NAMED_TYPES
from dray.cel.errors import CompileError
from dray.cel.expression import Expression, checked_tree
from dray.cel.limits import Interrupt
from dray.cel.types import BOOL, STRING, optional_of, type_of
from dray.cel.values import Optional, Value

RULE_LIMIT = 10_000_000  # limit on the estimated cost of one rule, at all places where it applies
SCHEMA_LIMIT = 100_000_000  # and of all rules of a schema together
_MOST_TOLD = 4  # most expensive rules to report
OBJECT_BUDGET = 10_000_000  # limit on the actual cost of all rules on one object
_OLD = re.compile(r"\boldSelf\b")
_FIELD_PATH = re.compile(r"(\.[a-zA-Z_][a-zA-Z0-9_-]*|\['[^']+'\])+")
_HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
_REASONS = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}


class Compiled(msgspec.Struct, frozen=True):
    """One CEL rule with its compiled expression and message expression."""

    rule: ValidationRule
    expression: Expression
    message: Expression | None
    transition: bool  # uses oldSelf


@lru_cache(maxsize=1)
def _functions() -> Environment:
    return Environment(collect(LIBRARIES), {}, {named.name: type_of(named) for named in NAMED_TYPES})


def _environment(node: SchemaNode, rule: ValidationRule, root: bool) -> Environment:
    """Return the CEL environment of a rule: functions, and the types of `self` and `oldSelf`."""
    self_type, fields = declared(node, root)
    variables = {"self": self_type}
    if _OLD.search(rule.rule) or _OLD.search(rule.message_expression):
        variables["oldSelf"] = optional_of(self_type) if rule.optional_old else self_type
    base = _functions()
    return Environment(base.functions, variables, base.types, fields)


_kept: WeakKeyDictionary[SchemaNode, list[Compiled]] = WeakKeyDictionary()


def _compiled(node: SchemaNode, root: bool, interrupt: Interrupt) -> Iterator[Compiled]:
    """Yield the compiled rules of a node.

    Each is compiled on first use and cached, even if the evaluation is interrupted.
    """
    found = _kept.setdefault(node, [])
    for number, rule in enumerate(node.rules):
        interrupt()
        if number == len(found):
            found.append(_compile(node, rule, root))
        yield found[number]


def _compile(node: SchemaNode, rule: ValidationRule, root: bool) -> Compiled:
    environment = _environment(node, rule, root)
    message = Expression(rule.message_expression, environment, (STRING,)) if rule.message_expression else None
    return Compiled(rule, Expression(rule.rule, environment, (BOOL,)), message, "oldSelf" in environment.variables)


# Rules of a definition


def faults(root: SchemaNode, interrupt: Interrupt = bool) -> Iterator[FieldError]:
    """Yield the errors in the rules of a schema, and of its defaults by these rules.

    Defaults are checked only if the rules have no error and their total cost is within the limit. Paths start at the
    schema's root. Raises any error of the interrupt.
    """
    total, sound = 0, True
    costly: list[tuple[int, str]] = []
    for node, path, times, correlatable in _places(root, "", 1, True):
        for number, rule in enumerate(node.rules):
            if not rule.rule.strip():
                continue
            here = f"{path}.x-kubernetes-validations[{number}]"
            for error, cost in _faults(node, rule, here, times, correlatable, node is root):
                if error is not None:
                    sound = False
                    yield error
                total += cost
                if cost >= SCHEMA_LIMIT // 100:
                    costly.append((cost, f"{here}.rule"))
    if total > SCHEMA_LIMIT:
        for _, here in sorted(costly, key=lambda pair: -pair[0])[:_MOST_TOLD]:
            text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            yield forbidden(here, text)
        whole = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden("", f"{whole} exceeds budget by factor of {_factor(total, SCHEMA_LIMIT)} {_HINT}")
    elif sound and root.has_defaults:
        yield from _refused_defaults(root, _RuleEvaluation(interrupt))


def _refused_defaults(root: SchemaNode, asking: _RuleEvaluation) -> Iterator[FieldError]:
    """Yield the errors of default values by the rules. Paths are those of the schema, ending in `.default`."""
    for node, path, _, _ in _places(root, "", 1, True):
        if node.default is UNSET:
            continue
        for error in _within_budget(asking, node, node.default, None, node is root):
            inner = "" if error.field == "<nil>" else error.field if error.field.startswith("[") else f".{error.field}"
            yield FieldError(error.reason, f"{path}.default{inner}", error.detail)


def _places(node: SchemaNode, path: str, times: int, correlatable: bool) -> Iterator[tuple[SchemaNode, str, int, bool]]:
    """Yield all places in a schema with rules.

    Each is a tuple: node, path, maximum number of occurrences, and whether oldSelf can be determined there.
    """
    if not node.has_rules:
        return
    yield node, path, times, correlatable
    for name, part in node.properties.items():
        yield from _places(part, f"{path}.properties[{name}]", times, correlatable)
    if node.additional is not None:
        often = times * cardinality(node)
        yield from _places(node.additional, f"{path}.additionalProperties", often, correlatable)
    if node.items is not None:
        keyed = correlatable and node.list_type == "map"
        yield from _places(node.items, f"{path}.items", times * cardinality(node), keyed)


def _faults(
    node: SchemaNode, rule: ValidationRule, path: str, times: int, correlatable: bool, root: bool
) -> Iterator[tuple[FieldError | None, int]]:
    """Yield a pair for each checked part of one rule: its error or None, and its estimated cost.

    The cost is 0 except for the rule itself. `times` is how often the place occurs at most, `correlatable` whether
    oldSelf can be determined there, `root` whether the node is the whole object.
    """
    environment = _environment(node, rule, root)
    if "oldSelf" in environment.variables and not correlatable:
        within = path.rpartition(".items")[0]
        text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
        yield invalid(f"{path}.rule", rule.rule, text), 0
        return
    sizes = SchemaSizes(node, root)
    yield _judged(rule, rule.rule, environment, BOOL, sizes, times, f"{path}.rule")
    if rule.message_expression:
        # The cost of a message is metered when it is evaluated; the size of `string()` of a number has no estimate.
        yield _judged(rule, rule.message_expression, environment, STRING, sizes, 0, f"{path}.messageExpression")
    if rule.field_path and not _leads_somewhere(node, rule.field_path):
        yield invalid(f"{path}.fieldPath", rule.field_path, "fieldPath must be a valid path"), 0
    if rule.optional_old is not None and "oldSelf" not in environment.variables:
        text = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", rule.optional_old, text), 0


def _judged(
    rule: ValidationRule, source: str, environment: Environment, returns: Any, sizes: SchemaSizes, times: int, path: str
) -> tuple[FieldError | None, int]:
    """Return the error in an expression, or None, and its estimated cost.

    The cost is that of `times` evaluations; it is 0 if the expression is invalid. A cost above the limit of a rule is
    an error.
    """
    expression = Expression(source, environment, (returns,))
    if expression.error is not None:
        return invalid(path, rule.as_go(), expression.error.detail), 0
    try:
        estimated = estimate_cost(checked_tree(source, environment), sizes) * times
    except CompileError as error:
        return invalid(path, rule.as_go(), error.detail), 0
    if estimated > RULE_LIMIT:
        text = f"estimated rule cost exceeds budget by factor of {_factor(estimated)} {_HINT}"
        return forbidden(path, text), estimated
    return None, estimated


def _factor(cost: int, limit: int = RULE_LIMIT) -> str:
    """Return how often a cost exceeds a limit, as text such as "1.200000x", "3.5x" or "more than 100x"."""
    factor = cost / limit
    if factor > 100:
        return "more than 100x"
    return f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"


def _leads_somewhere(node: SchemaNode, path: str) -> bool:
    """Return whether a fieldPath exists in the schema; False if it is malformed."""
    if not _FIELD_PATH.fullmatch(path):
        return False
    current: SchemaNode | None = node
    for name in _names(path):
        current = (current.properties.get(name) or current.additional) if current is not None else None
    return current is not None


def _names(path: str) -> list[str]:
    """Return the field names in a fieldPath such as `.spec.replicas` or `['a-b']`."""
    return [plain or quoted for plain, quoted in re.findall(r"\.([a-zA-Z_][a-zA-Z0-9_-]*)|\['([^']+)'\]", path)]


# Rules about an object


class RulesOutOfBudget(Exception):
    """The rules together exceeded the cost budget. No further rule is evaluated."""


class _RuleEvaluation:
    """Remaining cost budget of the rules on one object."""

    def __init__(self, interrupt: Interrupt) -> None:
        self.left = OBJECT_BUDGET
        self.interrupt = interrupt


def errors(root: SchemaNode, tree: Tree, old: Tree | None, interrupt: Interrupt = bool) -> list[FieldError]:
    """Return the errors of an object by the rules of its schema; `old` is the previous state.

    Raises any error of the interrupt.
    """
    return _within_budget(_RuleEvaluation(interrupt), root, tree, old, True)


def _within_budget(asking: _RuleEvaluation, node: SchemaNode, value: Any, old: Any, root: bool) -> list[FieldError]:
    """Return the errors of a value by the rules. Exceeding the budget is an error too."""
    found: list[FieldError] = []
    try:
        found.extend(_ask(asking, node, value, old, "", root))
    except RulesOutOfBudget:
        text = "validation failed due to running out of cost budget, no further validation rules will be run"
        found.append(FieldError("FieldValueInvalid", "<nil>", f"Invalid value: {text}"))
    return found


def _ask(
    asking: _RuleEvaluation, node: SchemaNode, value: Any, old: Any, path: str, root: bool = False
) -> Iterator[FieldError]:
    """Yield the errors of a value and of all values below it.

    Yields nothing for None. `old` is the earlier value or None; `root` says whether the value is the whole object.
    """
    if not node.has_rules or value is None:
        return
    if node.rules:
        yield from _ask_rules(asking, node, value, old, path, root)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name in sorted(value):
            part = node.properties.get(name) or node.additional
            if part is not None:
                here = f"{path}.{name}" if path else name
                if part is node.additional:
                    here = f"{path}[{name}]"
                yield from _ask(asking, part, value[name], before.get(name), here)
    elif isinstance(value, list) and node.items is not None:
        known = by_key(node, old)
        for index, item in enumerate(value):
            was = known.get(key_of(node, item)) if known else None
            yield from _ask(asking, node.items, item, was, f"{path}[{index}]")


def _ask_rules(
    asking: _RuleEvaluation, node: SchemaNode, value: Any, old: Any, path: str, root: bool
) -> Iterator[FieldError]:
    """Yield the errors of a value by the rules of its own node.

    An unchanged value is checked by transition rules only. A transition rule without optionalOldSelf is skipped if
    there is no old value. Raises RulesOutOfBudget.
    """
    convert = Convert(root)
    variables: dict[str, Value] = {"self": convert.value(node, value)}
    before: Value = convert.value(node, old) if old is not None else None
    unchanged = old is not None and value == old  # an unchanged value was accepted before
    for compiled in _compiled(node, root, asking.interrupt):
        if compiled.transition:
            if compiled.rule.optional_old:
                variables["oldSelf"] = Optional(before, old is not None)
            elif old is None:
                continue
            else:
                variables["oldSelf"] = before
        elif unchanged:
            continue
        result = compiled.expression.evaluate(variables, asking.interrupt)
        asking.left -= result.cost
        if asking.left < 0:
            raise RulesOutOfBudget
        if result.error is not None:
            text = f"{result.error} evaluating rule: {compiled.rule.message.strip() or compiled.rule.rule.strip()}"
            yield _refusal(compiled.rule, node, value, path, text, "FieldValueInvalid")
        elif result.value is not True:
            message = _message(asking, compiled, variables)
            yield _refusal(compiled.rule, node, value, path, message, compiled.rule.reason)


def _message(asking: _RuleEvaluation, compiled: Compiled, variables: dict[str, Value]) -> str:
    """Return the message of a failed rule: of messageExpression if usable, else message, else the rule.

    The messageExpression is usable if it gives a text that is not blank and has one line. Its cost is charged to the
    budget.
    """
    rule = compiled.rule
    default = rule.message.strip() or f"failed rule: {rule.rule.strip()}"
    if compiled.message is None or compiled.message.error is not None:
        return default
    result = compiled.message.evaluate(variables, asking.interrupt)
    asking.left -= result.cost
    text = result.value.strip() if isinstance(result.value, str) and result.error is None else ""
    return text if text and "\n" not in text else default


def _refusal(rule: ValidationRule, node: SchemaNode, value: Any, path: str, text: str, reason: str) -> FieldError:
    """Return the error of a failed rule. The message includes scalar values only.

    `path` is that of the value; the rule's fieldPath is appended to it. An empty path is reported as "<nil>".
    """
    here = path
    for name in _names(rule.field_path):
        here = f"{here}.{name}" if here else name
    title = _REASONS.get(reason, "Invalid value")
    plain = not isinstance(value, (dict, list)) and not rule.field_path
    if reason in ("FieldValueInvalid", "FieldValueDuplicate") and plain:
        title = f"{title}: {shown(value)}"
    return FieldError(reason, here or "<nil>", title if reason == "FieldValueDuplicate" else f"{title}: {text}")
