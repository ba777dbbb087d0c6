"""CEL environment of admission policies: the variables, result types and cost budget of their expressions.

An expression is evaluated for one write request. The variables are `object` and `oldObject` (one of them may be
null), `request`, `namespaceObject`, `params` if the policy has a paramKind, `variables` of the policy (each can
use the ones before it), and `authorizer` where it is permitted. Objects have no declared type, so an unknown
field is an error only when it is read. A mutation returns either a partial object (`Object{spec:
Object.spec{...}}`) or a list of patch operations (`JSONPatch{op: ...}`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from dray.api.quoting import quote
from dray.cel import types
from dray.cel.declarations import Environment, collect
from dray.cel.environment import LIBRARIES, NAMED_TYPES
from dray.cel.errors import CostExceeded, EvaluationError, NoSuchKey
from dray.cel.expression import Expression, Result
from dray.cel.library import jsonpatch
from dray.cel.limits import Interrupt
from dray.cel.types import BOOL, DYN, INT, NULL, STRING, TIMESTAMP, Kind, Type, list_of, map_of, type_of
from dray.cel.values import LazyMap, Value

ExpressionUse = Literal["condition", "variable", "validation", "message", "annotation", "mutation", "json patch"]
ReadVariable = Callable[[str], Value]  # returns the value of the variable with this name
FieldTypes = Mapping[str, Mapping[str, Type]]  # struct name → field name → field type

BUDGET = 10_000_000  # cost limit of all expressions of a policy together; each expression is also limited to MAX_COST
CONDITIONS_BUDGET = BUDGET // 4

_CACHE_SIZE = 1024
_PLAIN = frozenset({Kind.BOOL, Kind.BYTES, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.NULL, Kind.STRING})
_KEPT = _PLAIN | {Kind.TIMESTAMP, Kind.UINT, Kind.LIST, Kind.MAP}
_TEXTS = list_of(STRING)
OBJECT = Type(Kind.STRUCT, "Object")  # partial object that a mutation merges into the object
PATCH = Type(Kind.STRUCT, "JSONPatch")  # one JSON Patch operation
_LABELS = map_of(STRING, STRING)


def _struct(name: str) -> Type:
    return Type(Kind.STRUCT, f"kubernetes.{name}")


_REQUEST = _struct("AdmissionRequest")
_NAMESPACE = _struct("Namespace")
_VARIABLES = _struct("variables")
_FIELDS: FieldTypes = {
    "kubernetes.AdmissionRequest": {
        "kind": _struct("GroupVersionKind"),
        "resource": _struct("GroupVersionResource"),
        "subResource": STRING,
        "requestKind": _struct("GroupVersionKind"),
        "requestResource": _struct("GroupVersionResource"),
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _struct("UserInfo"),
        "dryRun": BOOL,
        "options": DYN,
    },
    "kubernetes.GroupVersionKind": {"group": STRING, "version": STRING, "kind": STRING},
    "kubernetes.GroupVersionResource": {"group": STRING, "version": STRING, "resource": STRING},
    "kubernetes.UserInfo": {"username": STRING, "uid": STRING, "groups": _TEXTS, "extra": map_of(STRING, _TEXTS)},
    "kubernetes.Namespace": {
        "metadata": _struct("NamespaceMetadata"),
        "spec": _struct("NamespaceSpec"),
        "status": _struct("NamespaceStatus"),
    },
    "kubernetes.NamespaceMetadata": {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": _LABELS,
        "annotations": _LABELS,
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": _TEXTS,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _TEXTS},
    "kubernetes.NamespaceStatus": {"conditions": list_of(_struct("NamespaceCondition")), "phase": STRING},
    "kubernetes.NamespaceCondition": {
        "status": STRING,
        "type": STRING,
        "lastTransitionTime": TIMESTAMP,
        "message": STRING,
        "reason": STRING,
    },
}


@dataclass(frozen=True, slots=True)
class _Rule:
    """Permitted result types and available variables of an expression, by its use.

    An empty `returns` permits every type.
    """

    returns: tuple[Type, ...] = ()
    authorizer: bool = True
    variables: bool = True
    makes: bool = False  # whether the expression can construct Object and JSONPatch values


_RULES: Mapping[ExpressionUse, _Rule] = {
    "condition": _Rule((BOOL,), variables=False),
    "variable": _Rule(),
    "validation": _Rule((BOOL,)),
    "message": _Rule((STRING,), authorizer=False),
    "annotation": _Rule((STRING, NULL)),
    "mutation": _Rule((OBJECT,), makes=True),
    "json patch": _Rule((list_of(PATCH),), makes=True),
}


@lru_cache(maxsize=1)
def _functions() -> Environment:
    """Return an environment with all functions and named types, but without variables."""
    return Environment(collect(LIBRARIES), {}, {named.name: type_of(named) for named in NAMED_TYPES})


Declared = tuple[tuple[str, Type], ...]


def environment(
    object_: Type,
    params: Type | None,
    authorizer: bool,
    declared: Declared | None,
    messages: FieldTypes = MappingProxyType({}),
) -> Environment:
    """Return the environment of a policy's expressions.

    `object_` and `params` are the types of the objects and of the parameters; without `params`, no variable
    `params` is declared. `authorizer` says whether the authorizer variables are declared. `declared` holds the
    names and types of the policy's own variables, or None if the policy has none. `messages` adds struct types
    with their fields.
    """
    variables = {"object": object_, "oldObject": object_, "request": _REQUEST, "namespaceObject": _NAMESPACE}
    if params is not None:
        variables["params"] = params
    if authorizer:
        variables |= {"authorizer": types.AUTHORIZER, "authorizer.requestResource": types.RESOURCE_CHECK}
    fields = {**_FIELDS, **messages}
    if declared is not None:
        variables["variables"] = _VARIABLES
        fields[_VARIABLES.name] = dict(declared)
    base = _functions()
    return Environment(base.functions, variables, base.types, fields)


@lru_cache(maxsize=_CACHE_SIZE)
def _environment(params: bool, authorizer: bool, declared: Declared | None, makes: bool) -> Environment:
    plain = environment(DYN, DYN if params else None, authorizer, declared)
    if not makes:
        return plain
    functions = {**plain.functions, **collect([jsonpatch.FUNCTIONS])}
    fields = {**plain.fields, PATCH.name: {"op": STRING, "path": STRING, "from": STRING, "value": DYN}}
    return replace(plain, functions=functions, fields=fields, made=frozenset({PATCH.name}), dynamic=OBJECT.name)


@lru_cache(maxsize=_CACHE_SIZE)
def _compiled(text: str, params: bool, use: ExpressionUse, declared: Declared | None) -> Expression:
    rule = _RULES[use]
    return Expression(text, _environment(params, rule.authorizer, declared, rule.makes), rule.returns)


class Compiler:
    """Compiler of a policy's expressions. Variables must be compiled in order, before expressions that use them."""

    def __init__(self, *, params: bool, composed: bool) -> None:
        """`params` says whether the policy has a paramKind; `composed` says whether it declares variables."""
        self._params = params
        self._composed = composed
        self.variables: dict[str, Expression] = {}

    def compile(self, use: ExpressionUse, text: str, name: str = "") -> Expression:
        """Compile an expression. Returns it with `error` set if it is invalid.

        For the use "variable", the expression is also stored under `name`, so that later expressions can refer to it.
        """
        expression = _compiled(text, self._params, use, self._declared if _RULES[use].variables else None)
        if use == "variable":
            self.variables[name] = expression
        return expression

    @property
    def _declared(self) -> Declared | None:
        if not self._composed:
            return None
        return tuple((name, exposed(expression.type)) for name, expression in self.variables.items())


def exposed(found: Type) -> Type:
    """Return the type that a variable has in other expressions: dyn for structs and opaque types, else `found`."""
    if found.kind not in _KEPT:
        return DYN
    return Type(found.kind, found.name, tuple(map(exposed, found.params))) if found.params else found


class OutOfBudget(CostExceeded):
    """The expressions of a policy together exceed the cost budget."""

    def __str__(self) -> str:
        return "validation failed due to running out of cost budget, no further validation rules will be run"


class Evaluation:
    """Evaluation of one policy's expressions for one request. Each variable is evaluated at most once, on first use."""

    def __init__(
        self, read: ReadVariable, variables: Mapping[str, Expression], budget: int, interrupt: Interrupt
    ) -> None:
        self._values = LazyMap(self._read)
        self._source = read
        self._variables = variables
        self._failed: dict[str, EvaluationError] = {}
        self._budget = budget
        self._interrupt = interrupt

    def evaluate(self, expression: Expression) -> Result:
        """Evaluate an expression and subtract its cost from the budget.

        Raises OutOfBudget when the budget is exhausted, and Interrupted.
        """
        result = expression.evaluate(self._values, self._interrupt)
        self._budget -= result.cost
        if self._budget < 0:
            raise OutOfBudget
        return result

    def _read(self, name: str) -> Value:
        return LazyMap(self._variable) if name == "variables" else self._source(name)

    def _variable(self, name: str) -> Value:
        if name in self._failed:
            raise self._failed[name]
        expression = self._variables.get(name)
        if expression is None:
            raise NoSuchKey(name)
        if expression.error is not None:
            text = f"composited variable {quote(name)} fails to compile: {expression.error.detail}"
            raise EvaluationError(text)
        result = self.evaluate(expression)
        if result.error is not None:
            text = f"composited variable {quote(name)} fails to evaluate: {result.error}"
            self._failed[name] = EvaluationError(text)
            raise self._failed[name]
        return result.value
