"""A compiled mutating policy: its expressions evaluate to a patch of plain data.

A mutation evaluates to an apply configuration, whose CEL types must be named after their field paths, or to the
operations of a JSON patch. Evaluations of more than 10 ms run in the worker process. `mutating_policies` applies the
patch.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from dray.api.needs import KnownValues
from dray.api.times import timestamp
from dray.api.types.admissionregistration import MutatingAdmissionPolicy, Mutation
from dray.apiserver.admission.compiled_policies import CompiledPolicy
from dray.apiserver.admission.conditions import evaluate
from dray.apiserver.admission.judging import JudgementFailed, judged
from dray.cel.admission import OBJECT, ExpressionUse, OutOfBudget, ReadVariable
from dray.cel.limits import Interrupt
from dray.cel.values import NANOS, Duration, Made, Timestamp, Value, format_seconds, type_name

_TEXT_FIELDS = ("op", "path", "from")
_UNWRITABLE = "evaluated to a type that could not marshal to JSON"


class MutationFailed(JudgementFailed):
    """A mutation has no value, or an unusable one. The text has the reason."""


class Patch(NamedTuple):
    """Patch of a mutation: an apply configuration or JSON patch operations."""

    applied: dict[str, Any] | None = None
    operations: list[dict[str, Any]] | None = None


class MutatingPolicy(CompiledPolicy):
    """A compiled mutating policy."""

    def __init__(self, policy: MutatingAdmissionPolicy) -> None:
        super().__init__(policy)
        self.source, spec, compiler = policy, policy.spec, self.compiler
        self._mutations = [compiler.compile(*_expression(mutation)) for mutation in spec.mutations]

    def patch(self, number: int, read: ReadVariable, known: KnownValues) -> Patch:
        """Return the patch of a mutation. Raises MutationFailed, and Lacking if the worker process must evaluate it."""
        there = partial(_evaluated, self.source, number)
        return judged(known, (id(self), number), read, partial(self.evaluated, number), there)

    def evaluated(self, number: int, read: ReadVariable, interrupt: Interrupt) -> Patch:
        """Evaluate a mutation. Returns its patch. Raises MutationFailed, and any error of the interrupt."""
        evaluation = self.evaluation(read, interrupt)
        try:
            value, error = evaluate(evaluation, self._mutations[number])
        except OutOfBudget as exceeded:
            raise MutationFailed(str(exceeded)) from exceeded
        if error is not None:
            raise MutationFailed(error)
        if isinstance(value, Made):
            _check_names(value, OBJECT.name)
            return Patch(applied=as_json(value))
        assert isinstance(value, list)  # the compiler has checked the type of the expression
        return Patch(operations=[_operation(one) for one in value])


def _evaluated(policy: MutatingAdmissionPolicy, number: int, read: ReadVariable, interrupt: Interrupt) -> Patch:
    """Compile a policy in the worker process. Returns the patch of one of its mutations. Raises MutationFailed."""
    return MutatingPolicy(policy).evaluated(number, read, interrupt)


def _expression(mutation: Mutation) -> tuple[ExpressionUse, str]:
    """Return the kind of a mutation in messages ("mutation" or "json patch") and its expression.

    The expression is "" if the mutation has none.
    """
    if mutation.applyConfiguration is not None:
        return "mutation", mutation.applyConfiguration.expression.strip()
    return "json patch", mutation.jsonPatch.expression.strip() if mutation.jsonPatch is not None else ""


def _operation(value: Value) -> dict[str, Any]:
    """Return a JSON patch operation as plain data. Raises MutationFailed for a field of the wrong type."""
    assert isinstance(value, Made)
    for name in _TEXT_FIELDS:
        if name in value and not isinstance(value[name], str):
            raise MutationFailed(f"unexpected type {type_name(value[name])} for JSONPatchType '{name}' field")
    if isinstance(made := value.get("value"), Made):
        _check_names(made, made.type.name)
    return {"op": "", "path": "", **{name: as_json(part) for name, part in value.items()}}


def _check_names(value: Value, name: str) -> None:
    """Raise MutationFailed if a part has the CEL type of another field. Types are named after their field paths."""
    for fault in _misplaced(value, name):
        raise MutationFailed(f"type mismatch: {fault}")


def _misplaced(value: Value, name: str) -> Iterator[str]:
    """Yield a message for each object in a CEL value whose type is not that of its field path.

    `name` is the type expected of the value itself, such as `Object.spec`.
    """
    if isinstance(value, Made):
        if value.type.name != name:
            expected = f'expected "{name}", which matches field name path from root Object type'
            yield f'unexpected type name "{value.type.name}", {expected}'
        for field, part in value.items():
            yield from _misplaced(part, f"{name}.{field}")
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _misplaced(part, name)


def as_json(value: Value) -> Any:
    """Return a CEL value as JSON data. Raises MutationFailed for a type without JSON form."""
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return int(value)  # removes the subclass that CEL uses for the type
        case dict():
            return {_key(key): as_json(part) for key, part in value.items()}
        case list():
            return [as_json(part) for part in value]
        case bytes():
            return base64.b64encode(value).decode()
        case Timestamp():
            return timestamp(value.nanos / NANOS)
        case Duration():
            return f"{format_seconds(value)}s"
    raise MutationFailed(f"{_UNWRITABLE}: {type_name(value)}")


def _key(key: Value) -> str:
    """Return a map key. Raises MutationFailed unless it is a string."""
    if not isinstance(key, str):
        raise MutationFailed(f"{_UNWRITABLE}: a map whose keys are no strings")
    return key
